"""The parts of the client that not every program uses. Each is loaded when its name is first used here.

A command that appends one message needs no reader, and loading one would take longer than the request.
"""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from everbrook.client._async.frames import read_frames, table_of
    from everbrook.client._async.httpx_wire import AsyncHttpxWire
    from everbrook.client._async.materialise import AsyncMaterialiser
    from everbrook.client._async.producer import AsyncProducer
    from everbrook.client._async.reader import AsyncReader
    from everbrook.client._async.resources import (
        AsyncBucket,
        AsyncSubscription,
        list_buckets,
        list_changes,
        list_streams,
    )
    from everbrook.client._async.snapshots import AsyncSnapshots
    from everbrook.client.production import Batching
    from everbrook.client.read_state import ReadState
    from everbrook.client.tables.forms import form_of
    from everbrook.client.tables.table import Table
    from everbrook.client.tables.table_page import TablePage, table_pages_of
    from everbrook.client.workers import AsyncWorker

__all__ = [
    "AsyncBucket",
    "AsyncHttpxWire",
    "AsyncMaterialiser",
    "AsyncProducer",
    "AsyncReader",
    "AsyncSnapshots",
    "AsyncSubscription",
    "AsyncWorker",
    "Batching",
    "ReadState",
    "Table",
    "TablePage",
    "form_of",
    "list_buckets",
    "list_changes",
    "list_streams",
    "read_frames",
    "table_of",
    "table_pages_of",
]

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        ".frames": "read_frames table_of",
        ".httpx_wire": "AsyncHttpxWire",
        ".materialise": "AsyncMaterialiser",
        ".producer": "AsyncProducer",
        ".reader": "AsyncReader",
        ".resources": "AsyncBucket AsyncSubscription list_buckets list_changes list_streams",
        ".snapshots": "AsyncSnapshots",
        "..production": "Batching",
        "..read_state": "ReadState",
        "..tables.forms": "form_of",
        "..tables.table_page": "TablePage table_pages_of",
        "..tables.table": "Table",
        "..workers": "AsyncWorker",
    },
    extras={"pyarrow": "tables need pyarrow: pip install 'everbrook[frames]'"},
)
