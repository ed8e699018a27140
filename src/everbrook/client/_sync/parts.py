# Written by tools/mirror.py from src/everbrook/client/_async/parts.py: change that file, not this one.
"""The parts of the client that not every program uses. Each is loaded when it is first asked for here.

A command that appends a message has no use for readers, and would wait longer for them than for its server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everbrook.client._sync.bucket import Bucket
    from everbrook.client._sync.frames import read_frames
    from everbrook.client._sync.materialise import Materialiser
    from everbrook.client._sync.producer import Producer
    from everbrook.client._sync.reader import Reader
    from everbrook.client._sync.snapshots import Snapshots
    from everbrook.client._sync.subscription import Subscription
    from everbrook.client._sync.tables import table_of
    from everbrook.client.flow.producing import Batching
    from everbrook.client.flow.reading import Reading

__all__ = [
    "Batching",
    "Bucket",
    "Materialiser",
    "Producer",
    "Reader",
    "Reading",
    "Snapshots",
    "Subscription",
    "read_frames",
    "table_of",
]

_PLACES = {
    "Bucket": "_sync.bucket",
    "Materialiser": "_sync.materialise",
    "Producer": "_sync.producer",
    "Reader": "_sync.reader",
    "Snapshots": "_sync.snapshots",
    "Subscription": "_sync.subscription",
    "Batching": "flow.producing",
    "Reading": "flow.reading",
    "read_frames": "_sync.frames",
    "table_of": "_sync.tables",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"everbrook.client.{_PLACES[name]}"), name)
    globals()[name] = value
    return value
