"""The parts of the client that not every program uses. Each is loaded when it is first asked for here.

A command that appends a message has no use for readers, and would wait longer for them than for its server.
"""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from everbrook.client._async.bucket import AsyncBucket
    from everbrook.client._async.frames import read_frames
    from everbrook.client._async.materialise import AsyncMaterialiser
    from everbrook.client._async.producer import AsyncProducer
    from everbrook.client._async.reader import AsyncReader
    from everbrook.client._async.snapshots import AsyncSnapshots
    from everbrook.client._async.subscription import AsyncSubscription
    from everbrook.client._async.tables import table_of
    from everbrook.client.production import Batching
    from everbrook.client.read_state import Reading

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

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        ".bucket": "AsyncBucket",
        ".frames": "read_frames",
        ".materialise": "AsyncMaterialiser",
        ".producer": "AsyncProducer",
        ".reader": "AsyncReader",
        ".snapshots": "AsyncSnapshots",
        ".subscription": "AsyncSubscription",
        ".tables": "table_of",
        "..production": "Batching",
        "..read_state": "Reading",
    },
)
