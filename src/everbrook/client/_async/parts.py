"""The parts of the client that not every program uses. Each is loaded when it is first asked for here.

A command that appends a message has no use for readers, and would wait longer for them than for its server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everbrook.client._async.bucket import AsyncBucket
    from everbrook.client._async.frames import read_frames
    from everbrook.client._async.materialise import AsyncMaterialiser
    from everbrook.client._async.producer import AsyncProducer
    from everbrook.client._async.reader import AsyncReader
    from everbrook.client._async.snapshots import AsyncSnapshots
    from everbrook.client._async.subscription import AsyncSubscription
    from everbrook.client._async.tables import table_of
    from everbrook.client.flow.producing import Batching
    from everbrook.client.flow.reading import Reading

__all__ = [
    "AsyncBucket",
    "AsyncMaterialiser",
    "AsyncProducer",
    "AsyncReader",
    "AsyncSnapshots",
    "AsyncSubscription",
    "Batching",
    "Reading",
    "read_frames",
    "table_of",
]

_PLACES = {
    "AsyncBucket": "_async.bucket",
    "AsyncMaterialiser": "_async.materialise",
    "AsyncProducer": "_async.producer",
    "AsyncReader": "_async.reader",
    "AsyncSnapshots": "_async.snapshots",
    "AsyncSubscription": "_async.subscription",
    "Batching": "flow.producing",
    "Reading": "flow.reading",
    "read_frames": "_async.frames",
    "table_of": "_async.tables",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"everbrook.client.{_PLACES[name]}"), name)
    globals()[name] = value
    return value
