# Written by tools/mirror.py from src/everbrook/client/_async/parts.py: change that file, not this one.
"""The parts of the client that not every program uses. Each is loaded when it is first asked for here.

A command that appends a message has no use for readers, and would wait longer for them than for its server.
"""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from everbrook.client._sync.bucket import Bucket
    from everbrook.client._sync.frames import read_frames
    from everbrook.client._sync.materialise import Materialiser
    from everbrook.client._sync.producer import Producer
    from everbrook.client._sync.reader import Reader
    from everbrook.client._sync.snapshots import Snapshots
    from everbrook.client._sync.subscription import Subscription
    from everbrook.client._sync.tables import table_of
    from everbrook.client.production import Batching
    from everbrook.client.read_state import Reading

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

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        ".bucket": "Bucket",
        ".frames": "read_frames",
        ".materialise": "Materialiser",
        ".producer": "Producer",
        ".reader": "Reader",
        ".snapshots": "Snapshots",
        ".subscription": "Subscription",
        ".tables": "table_of",
        "..production": "Batching",
        "..read_state": "Reading",
    },
)
