"""Changes of Postgres into streams: the source `everbrook_postgres`, and what there is to see and do about its slots.

    changes = spark.readStream.format("everbrook_postgres").options(url=…, tables="items", copyLocation=…).load()
    everbrook.spark.write_stream(changes, "/checkpoints/items", autoCreate=True)

The rule of it all: what a batch has is fixed by two positions, and the slot is confirmed only up to what Spark has
committed. So a batch can be asked for again after every crash, and is the same.
"""

from typing import TYPE_CHECKING

from everbrook.spark.lazily import lazily

if TYPE_CHECKING:
    from everbrook.spark.capture.errors import CaptureError, CaptureRefused, ChangesLost, PostgresAway
    from everbrook.spark.capture.slots import Status, drop, status
    from everbrook.spark.capture.source import PostgresDataSource

_PLACES = {
    "CaptureError": "errors",
    "CaptureRefused": "errors",
    "ChangesLost": "errors",
    "PostgresAway": "errors",
    "PostgresDataSource": "source",
    "Status": "slots",
    "drop": "slots",
    "status": "slots",
}

__all__ = [
    "CaptureError",
    "CaptureRefused",
    "ChangesLost",
    "PostgresAway",
    "PostgresDataSource",
    "Status",
    "drop",
    "status",
]

__getattr__ = lazily(__name__, _PLACES)
