"""Changes of Postgres into streams: the source `everbrook_postgres`, and what there is to see and do about its slots.

    changes = spark.readStream.format("everbrook_postgres").options(url=…, tables="items", copyLocation=…).load()
    everbrook.spark.write_stream(changes, "/checkpoints/items", autoCreate=True)

The rule of it all: what a batch has is fixed by two positions, and the slot is confirmed only up to what Spark has
committed. So a batch can be asked for again after every crash, and is the same.
"""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports
from everbrook.spark.extras import EXTRAS

if TYPE_CHECKING:
    from everbrook.spark.capture.beginning import forget
    from everbrook.spark.capture.errors import CaptureError, CaptureRefused, ChangesLost, PostgresAway
    from everbrook.spark.capture.slots import Status, drop, status
    from everbrook.spark.capture.source import PostgresDataSource

__all__ = [
    "CaptureError",
    "CaptureRefused",
    "ChangesLost",
    "PostgresAway",
    "PostgresDataSource",
    "Status",
    "drop",
    "forget",
    "status",
]

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        ".beginning": "forget",
        ".errors": "CaptureError CaptureRefused ChangesLost PostgresAway",
        ".slots": "Status drop status",
        ".source": "PostgresDataSource",
    },
    EXTRAS,
)
