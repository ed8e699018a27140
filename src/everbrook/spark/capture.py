"""Changes of Postgres into streams: the source `everbrook_postgres`, and functions for its slots.

    changes = spark.readStream.format("everbrook_postgres").options(url=…, tables="items", copyLocation=…).load()
    everbrook.spark.write_stream(changes, "/checkpoints/items", autoCreate=True)

Two positions fix the rows of a batch, and the slot is confirmed only up to what Spark has committed. So after a crash
Spark can read a batch again, and gets the same rows.
"""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports
from everbrook.spark import EXTRAS

if TYPE_CHECKING:
    from everbrook.spark.postgres.capture_source import PostgresDataSource
    from everbrook.spark.postgres.errors import CaptureError, CaptureRefused, ChangesLost, PostgresAway
    from everbrook.spark.postgres.slot import Status, drop, status
    from everbrook.spark.postgres.start import forget

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
        ".postgres.start": "forget",
        ".postgres.errors": "CaptureError CaptureRefused ChangesLost PostgresAway",
        ".postgres.slot": "Status drop status",
        ".postgres.capture_source": "PostgresDataSource",
    },
    EXTRAS,
)
