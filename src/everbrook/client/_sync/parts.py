# Written by tools/mirror.py from src/everbrook/client/_async/parts.py: change that file, not this one.
"""The parts of the client that not every program uses. Each is loaded when its name is first used here.

A command that appends one message needs no reader, and loading one would take longer than the request.
"""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from everbrook.client._sync.frames import read_frames, table_of
    from everbrook.client._sync.httpx_wire import HttpxWire
    from everbrook.client._sync.materialise import Materialiser
    from everbrook.client._sync.producer import Producer
    from everbrook.client._sync.reader import Reader
    from everbrook.client._sync.resources import (
        Bucket,
        Subscription,
        list_buckets,
        list_changes,
        list_streams,
    )
    from everbrook.client._sync.snapshots import Snapshots
    from everbrook.client.production import Batching
    from everbrook.client.read_state import ReadState
    from everbrook.client.tables.forms import form_of
    from everbrook.client.tables.table import Table
    from everbrook.client.tables.table_page import TablePage, table_pages_of
    from everbrook.client.workers import Worker

__all__ = [
    "Batching",
    "Bucket",
    "HttpxWire",
    "Materialiser",
    "Producer",
    "ReadState",
    "Reader",
    "Snapshots",
    "Subscription",
    "Table",
    "TablePage",
    "Worker",
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
        ".httpx_wire": "HttpxWire",
        ".materialise": "Materialiser",
        ".producer": "Producer",
        ".reader": "Reader",
        ".resources": "Bucket Subscription list_buckets list_changes list_streams",
        ".snapshots": "Snapshots",
        "..production": "Batching",
        "..read_state": "ReadState",
        "..tables.forms": "form_of",
        "..tables.table_page": "TablePage table_pages_of",
        "..tables.table": "Table",
        "..workers": "Worker",
    },
    extras={"pyarrow": "tables need pyarrow: pip install 'everbrook[frames]'"},
)
