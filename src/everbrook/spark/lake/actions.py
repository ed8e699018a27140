"""How the log of a Delta table names a file."""

import time

import msgspec
from deltalake.transaction import AddAction

from everbrook.spark.lake.columns import DATE, GROUP
from everbrook.spark.lake.files import File


def action_of(file: File) -> AddAction:
    """Name a file for the log.

    Its statistics have no bounds of columns: where some columns have bounds and others none, delta-rs takes the
    missing ones for null, and a filter on such a column passes over the file. Parquet has bounds of its own.
    """
    partition = {
        GROUP: file.partition.group,
        DATE: None if file.partition.date is None else file.partition.date.isoformat(),
    }
    stats = msgspec.json.encode({"numRecords": file.rows}).decode()
    return AddAction(file.path, file.size_bytes, partition, int(time.time() * 1000), data_change=True, stats=stats)
