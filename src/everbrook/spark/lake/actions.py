"""How the log of a Delta table names a file."""

import time

import msgspec
from deltalake.transaction import AddAction

from everbrook.spark.lake.columns import DATE, GROUP, OFFSET, STREAM
from everbrook.spark.lake.files import File


def action_of(file: File) -> AddAction:
    """Name a file for the log."""
    partition = {
        GROUP: file.partition.group,
        DATE: None if file.partition.date is None else file.partition.date.isoformat(),
    }
    return AddAction(
        file.path, file.size_bytes, partition, int(time.time() * 1000), data_change=True, stats=_stats(file)
    )


def _stats(file: File) -> str:
    """Give what lets readers pass over a file: only what is exact."""
    bounds = {STREAM: file.streams} | ({OFFSET: file.offsets} if file.offsets[0] is not None else {})
    stats = {
        "numRecords": file.rows,
        "minValues": {name: low for name, (low, _) in bounds.items()},
        "maxValues": {name: high for name, (_, high) in bounds.items()},
    }
    return msgspec.json.encode(stats).decode()
