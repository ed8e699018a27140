"""Files of a table: rows are partitioned by group and day, and written as Parquet.

The files count once the log of the table names them. The rows in memory are bounded, and so is the number of files that
are open at a time. The group of a stream comes from its name:

    1                     the first segment of the path (`orders/eu` is in `orders`); 2 means the first two
    "prefix"              everything before the last segment
    "^tenants/([^/]+)/"   the match of a regular expression: its first group, or all of it

A group is the name of a folder. A name that is too long is cut, and ends with a digest of the whole; and each `~`
becomes `-`, because delta-rs does not find compacted files in such a folder. The name of the folder for rows without a
group is no group either.
"""

import hashlib
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from everbrook.spark.lake.columns import APPENDED_AT, DATE, GROUP, STREAM
from everbrook.spark.lake.lake_errors import explained
from everbrook.spark.options import InvalidOption

Group = int | str
OTHERS = ""
"""The group of streams without one. Tables have NULL for it, because Delta has no empty text in a partition."""
NO_GROUP = "__HIVE_DEFAULT_PARTITION__"
"""The name of the folder for NULL, by the convention of Hive."""
PREFIX = "prefix"
_LONGEST = 200
"""Bytes of a group in the name of its folder: file systems allow 255, with the name of the column."""
_DIGITS = 16
_ASCII = re.compile(r"[\x00-\x7f]+")
FILE_BYTES = 128 * 1024 * 1024
"""The size at which a file ends and another one begins."""
SMALL_BYTES = FILE_BYTES // 4
"""Smaller files are to be merged."""
_ROW_GROUP_BYTES = 32 * 1024 * 1024
_WAITING_BYTES = 96 * 1024 * 1024
_OPEN_FILES = 32
COMPRESSION = "zstd"


def check_group(group: Group) -> None:
    """Refuse an invalid group."""
    if isinstance(group, bool) or (isinstance(group, int) and group < 1) or group == "":
        raise InvalidOption(f"group must be a number of segments, 'prefix' or a regular expression, got {group!r}")
    if isinstance(group, str) and group.isdecimal():
        raise InvalidOption(f"group must be a number of segments without quotes, got the text {group!r}")
    if isinstance(group, str) and group != PREFIX:
        try:
            re.compile(group)
        except re.error as error:
            raise InvalidOption(f"group must be a regular expression, got {group!r}: {error}") from None


def grouping(group: Group) -> Callable[[str], str]:
    """Make the function that gives the group of a stream."""
    find = _finding(group)

    def group_of(stream: str) -> str:
        found = find(stream)
        return OTHERS if found == NO_GROUP else _cut(found.replace("~", "-"))

    return group_of


def escaped(group: str) -> str:
    """Escape a group for the name of a folder. Only ASCII is escaped: Spark would decode others byte by byte."""
    return _ASCII.sub(lambda found: quote(found[0], safe=""), group)


def _cut(group: str) -> str:
    if _length(group) <= _LONGEST:
        return group
    begin = group[:_LONGEST]
    while _length(begin) > _LONGEST - _DIGITS - 1:
        begin = begin[:-1]
    return f"{begin}-{hashlib.sha256(group.encode()).hexdigest()[:_DIGITS]}"


def _length(group: str) -> int:
    """Count the bytes of a fully escaped name: delta-rs names folders so when it compacts."""
    return len(quote(group, safe=""))


def _finding(group: Group) -> Callable[[str], str]:
    if isinstance(group, int):
        return lambda stream: "/".join(stream.strip("/").split("/")[:group])
    if group == PREFIX:
        return lambda stream: stream.strip("/").rpartition("/")[0]
    return _found_by(re.compile(group))


def _found_by(pattern: "re.Pattern[str]") -> Callable[[str], str]:
    def find(stream: str) -> str:
        found = pattern.search(stream.strip("/"))
        if found is None:
            return OTHERS
        return (found[1] if pattern.groups else found[0]) or OTHERS

    return find


class Partition(Struct, frozen=True):
    """A group of streams, and a day. Either may be unknown."""

    group: str | None
    date: date | None

    @property
    def path(self) -> str:
        """The folder of its files, by the convention of Hive."""
        group = NO_GROUP if self.group is None else escaped(self.group)
        return f"{GROUP}={group}/{DATE}={NO_GROUP if self.date is None else self.date.isoformat()}"


class File(Struct, frozen=True):
    """A file that was written. Its path is relative to the folder of the table."""

    path: str
    partition: Partition
    rows: int
    size_bytes: int


class FileWriter:
    """Writes rows to files of a folder."""

    def __init__(self, folder: Path, name: str, group_of: Callable[[str], str]) -> None:
        """Take the folder, the prefix of file names, and the function that gives the group of a stream."""
        self.files: list[File] = []
        self._folder = folder
        self._name = name
        self._group_of = group_of
        self._waiting: dict[Partition, _Waiting] = {}
        self._schema: pa.Schema | None = None

    def write(self, rows: pa.Table) -> None:
        """Take rows, and hold some of them in memory. Rows with other columns than before begin new files."""
        if self._schema is not None and rows.schema != self._schema:
            self.close()
        self._schema = rows.schema
        with explained(self._folder):
            for partition, part in parted(rows, self._group_of):
                waiting = self._waiting.get(partition) or self._open(partition)
                waiting.add(part)
                if waiting.size_bytes >= FILE_BYTES:
                    self._finish(partition)
            while sum(each.waiting_bytes for each in self._waiting.values()) > _WAITING_BYTES:
                max(self._waiting.values(), key=lambda each: each.waiting_bytes).flush()

    def close(self) -> None:
        with explained(self._folder):
            for partition in list(self._waiting):
                self._finish(partition)

    def _open(self, partition: Partition) -> "_Waiting":
        if len(self._waiting) >= _OPEN_FILES:
            self._finish(next(iter(self._waiting)))
        path = f"{partition.path}/{self._name}-{uuid4().hex}.parquet"
        self._waiting[partition] = _Waiting(self._folder, path, partition)
        return self._waiting[partition]

    def _finish(self, partition: Partition) -> None:
        self.files.append(self._waiting.pop(partition).finish())


class _Waiting:
    """A file to which rows are added."""

    def __init__(self, folder: Path, path: str, partition: Partition) -> None:
        self.waiting_bytes = 0
        self.size_bytes = 0
        self._folder, self._path, self._partition = folder, path, partition
        self._tables: list[pa.Table] = []
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0

    def add(self, rows: pa.Table) -> None:
        self._tables.append(rows)
        self.waiting_bytes += rows.nbytes
        self.size_bytes += rows.nbytes
        if self.waiting_bytes >= _ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if not self._tables:
            return
        rows = pa.concat_tables(self._tables)
        if self._writer is None:
            place = self._folder / self._path
            place.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(place, rows.schema, compression=COMPRESSION)
        self._writer.write_table(rows)
        self._rows += rows.num_rows
        self._tables, self.waiting_bytes = [], 0

    def finish(self) -> File:
        self.flush()
        if self._writer is not None:
            self._writer.close()
        return File(self._path, self._partition, self._rows, (self._folder / self._path).stat().st_size)


def parted(rows: pa.Table, group_of: Callable[[str], str]) -> list[tuple[Partition, pa.Table]]:
    """Partition rows by group and day, in their order."""
    streams = rows.column(STREAM).combine_chunks().dictionary_encode()
    groups = pa.array([group_of(name) or None for name in streams.dictionary.to_pylist()], pa.string())
    of_rows = groups.take(streams.indices).dictionary_encode(null_encoding="encode")
    days = rows.column(APPENDED_AT).combine_chunks().cast(pa.date32()).dictionary_encode(null_encoding="encode")
    codes = of_rows.indices.to_numpy().astype(np.int64) * len(days.dictionary) + days.indices.to_numpy()
    found, firsts = np.unique(codes, return_index=True)
    partitions = [Partition(of_rows[first].as_py(), days[first].as_py()) for first in firsts.tolist()]
    if len(found) == 1:
        return [(partitions[0], rows)]
    return [(each, rows.filter(pa.array(codes == code))) for each, code in zip(partitions, found.tolist(), strict=True)]
