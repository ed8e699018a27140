"""Small files of a folder of Parquet are put together to a larger one, partition by partition."""

from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq

from everbrook.spark.lake.columns import Columns, file_schema
from everbrook.spark.lake.files import COMPRESSION, FILE_BYTES, SMALL_BYTES


def merge_small(folder: Path, partition: Path, staging: Path, columns: Columns) -> tuple[str, list[str]] | None:
    """Write one file of the small ones of a partition, and give its path and theirs. None if there is nothing to do.

    A file that has a column of which the table does not know is left as it is: its values would be lost.
    """
    names = set(file_schema(columns).names)
    small: list[Path] = []
    size_bytes = 0
    for path in sorted(partition.glob("*.parquet")):
        path_bytes = path.stat().st_size
        fits = path_bytes < SMALL_BYTES and size_bytes + path_bytes <= FILE_BYTES
        if fits and names.issuperset(pq.read_schema(path).names):
            small.append(path)
            size_bytes += path_bytes
    if len(small) < 2:  # noqa: PLR2004 - one is put together with nothing
        return None
    relative = f"{partition.relative_to(folder)}/compacted-{uuid4().hex}.parquet"
    _write(small, staging / relative, columns)
    return relative, [str(path.relative_to(folder)) for path in small]


def _write(small: list[Path], place: Path, columns: Columns) -> None:
    schema = file_schema(columns)
    place.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(place, schema, compression=COMPRESSION) as writer:
        for path in small:
            # A file has the columns that there were when it was written.
            rows = pq.read_table(path, schema=schema, partitioning=None)
            writer.write_table(rows)
