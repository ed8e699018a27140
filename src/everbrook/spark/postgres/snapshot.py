"""The initial copy of the tables: made over several connections at once, kept in files, read as messages.

All connections read the snapshot that the slot exported: what is committed later is not in the copy, and is in the
slot. Tables are split by the pages of their rows, so that several connections read a large one.

The files hold what Postgres wrote for COPY. The manifest is written last, when everything else is on disk, so a copy is
complete or does not exist. The position of a row is the number of its first byte, counted through all files in the
order of the manifest. The files are deleted once the last batch of the copy is committed.
"""

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from msgspec import Struct
from psycopg import sql

from everbrook.spark.postgres.capture_options import CaptureOptions
from everbrook.spark.postgres.capture_position import MANIFEST, RESETS, Shape
from everbrook.spark.postgres.change_messages import Headers, Row, RowWriter, Types
from everbrook.spark.postgres.errors import START_OVER, CaptureError, CaptureRefused, ChangesLost, PostgresAway
from everbrook.spark.postgres.pgoutput import Tuple
from everbrook.spark.postgres.publication import Published
from everbrook.spark.postgres.routing import Routing, Streams
from everbrook.spark.postgres.slot import connect
from everbrook.spark.postgres.system_catalog import Leaf, Table, leaves_of

_BLOCK_BYTES = 1024 * 1024
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)


class TableRecord(Struct, frozen=True):
    """A table as it was when its capture began."""

    oid: int
    given: str
    """The name in the options."""
    name: str
    """The type of its messages."""
    shape: Shape
    member: int | None = None
    """The number of its entry in the publication, unless all tables are published."""
    partitioned: bool = False


class Part(Struct, frozen=True):
    """A file of rows of one table."""

    table: str
    file: str
    size_bytes: int


class Manifest(Struct, frozen=True):
    """The beginning of a capture: its slot, tables and copied files."""

    slot: str
    publication: str
    lsn: int
    tables: tuple[TableRecord, ...]
    parts: tuple[Part, ...] = ()
    bases: dict[int, int] = {}
    elements: dict[int, int] = {}
    routing: Routing | None = None
    version: int = 1

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts)

    def types(self) -> Types:
        """Return the types of the columns, by which values are written."""
        types = Types()
        types.add(self.bases, self.elements)
        return types


class Slice(Struct, frozen=True):
    """Whole rows of one file."""

    part: Part
    start: int
    end: int
    before: int
    """The bytes of all files before this one."""


def load_manifest(folder: Path) -> Manifest | None:
    """Read the manifest of a copy that is complete. None if there is none."""
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None


def write_whole(folder: Path, name: str, data: bytes) -> None:
    """Write a file atomically, and sync it."""
    temporary = folder / f".{name}.tmp"
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    # The file is synced before the rename, and its folder after it: no crash leaves an incomplete file.
    temporary.replace(folder / name)
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names of its files are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Spool:
    """The files of a copy."""

    def __init__(self, folder: Path, parts: tuple[Part, ...]) -> None:
        self._folder = folder
        self._parts = parts
        self.size_bytes = sum(part.size_bytes for part in parts)
        self._resets_bytes = sum(part.size_bytes for part in parts if part.file == RESETS)

    def slices(self, start: int, end: int) -> list[Slice]:
        """Divide a range of bytes by files."""
        found, before = [], 0
        for part in self._parts:
            first, last = max(start - before, 0), min(end - before, part.size_bytes)
            if first < last:
                self._require(part)
                found.append(Slice(part, first, last, before))
            before += part.size_bytes
        return found

    def _require(self, part: Part) -> None:
        if not (self._folder / part.file).exists():
            raise ChangesLost(
                f"the copy of {part.table} was read before, and {part.file} is no longer in {self._folder}: the "
                f"folder belongs to another checkpoint, or to a later state of this one. {START_OVER}"
            )

    def end_of(self, start: int, max_rows: int, max_bytes: int) -> int:
        """Find the end of a batch of at most so many rows or bytes, and of at least one row.

        A batch of resets has no rows: its tasks write in any order, and a reset must precede the rows of its stream.
        """
        at, rows = start, 0
        for each in self.slices(start, self._resets_bytes if start < self._resets_bytes else self.size_bytes):
            with (self._folder / each.part.file).open("rb") as file:
                file.seek(each.start)
                for line in file:
                    if rows and (rows >= max_rows or at + len(line) - start > max_bytes):
                        return at
                    at += len(line)
                    rows += 1
        return at

    def split(self, start: int, end: int, count: int) -> list[list[Slice]]:
        """Divide a range among tasks, at the ends of rows."""
        bounds = [start, *(self._aligned(start + (end - start) * place // count) for place in range(1, count)), end]
        return [self.slices(first, last) for first, last in pairwise(bounds) if first < last]

    def _aligned(self, at: int) -> int:
        """Find the end of the row that a byte is in."""
        for each in self.slices(at, self.size_bytes):
            with (self._folder / each.part.file).open("rb") as file:
                file.seek(max(each.start - 1, 0))
                return each.before + max(each.start - 1, 0) + len(file.readline()) if each.start else at
        return at

    def rows(self, each: Slice) -> Iterator[tuple[int, Tuple]]:
        """Read rows, each with the position of its first byte."""
        return ((at, parse_line(line)) for at, line in self.lines(each))

    def lines(self, each: Slice) -> Iterator[tuple[int, bytes]]:
        """Read lines, each with the position of its first byte."""
        with (self._folder / each.part.file).open("rb", buffering=_BLOCK_BYTES) as file:
            file.seek(each.start)
            at = each.start
            while at < each.end:
                line = file.readline()
                yield each.before + at, line
                at += len(line)

    def delete(self) -> None:
        """Delete the files, once all rows were read."""
        for part in self._parts:
            (self._folder / part.file).unlink(missing_ok=True)


def parse_line(line: bytes) -> Tuple:
    """Read a row of COPY's text format."""
    values = line[:-1].split(b"\t") if line != b"\n" else [b""]
    if b"\\" not in line:
        return values  # type: ignore[return-value] # none of them is NULL
    return [None if value == b"\\N" else _unescaped(value) for value in values]


def _unescaped(value: bytes) -> bytes:
    if b"\\" not in value:
        return value
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), value)


class PageRange(Struct, frozen=True):
    """Pages of a table that are copied into one file."""

    table: Table
    leaf: Leaf
    first_page: int
    last_page: int | None
    """The first page after the range. None: the range ends with the table."""


def copy_tables(options: CaptureOptions, snapshot: str, published: list[Published], pages_per_part: int) -> list[Part]:
    """Copy tables into files of the capture's folder, which are on disk when this returns."""
    url, folder = options.url, options.location
    with connect(url) as connection:
        by_table = {each.table.oid: each for each in published}
        ranges = [pages for each in published for pages in _page_ranges(connection, each.table, pages_per_part)]
    with ThreadPoolExecutor(max_workers=options.connections) as pool:
        jobs = [
            pool.submit(_copy, url, snapshot, by_table[pages.table.oid], pages, folder / f"part-{number:05d}.copy")
            for number, pages in enumerate(ranges)
        ]
        return [part for job in jobs if (part := job.result()).size_bytes]


def _page_ranges(connection: "psycopg.Connection[Any]", table: Table, pages_per_part: int) -> Iterator[PageRange]:
    for leaf in leaves_of(connection, table):
        row = connection.execute(
            "SELECT pg_relation_size(%s::oid::regclass) / current_setting('block_size')::int8", [leaf.oid]
        ).fetchone()
        pages = int(row[0]) if row else 0
        bounds = [*range(0, max(pages, 1), pages_per_part), None]
        for first, last in pairwise(bounds):
            yield PageRange(table, leaf, first or 0, last)


def _copy(url: str, snapshot: str, published: Published, pages: PageRange, path: Path) -> Part:
    try:
        with connect(url, autocommit=False) as connection, path.open("wb") as file:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            # All connections read the same snapshot, so the parts of the copy are of one moment.
            connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
            with connection.cursor().copy(_statement(published, pages)) as rows:
                for block in rows:
                    file.write(block)
            # The rows must be on disk before the manifest names their file.
            file.flush()
            os.fsync(file.fileno())
    except psycopg.Error as error:
        raise _explained(pages.table, error) from error
    except OSError as error:
        raise CaptureError(f"the copy of {pages.table.full_name} can't be written to {path}: {error}") from error
    return Part(pages.table.type, path.name, path.stat().st_size)


def _statement(published: Published, pages: PageRange) -> sql.Composed:
    columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in published.table.columns)
    where = sql.SQL("ctid >= {}").format(sql.Literal(f"({pages.first_page},0)"))
    if pages.last_page is not None:
        where += sql.SQL(" AND ctid < {}").format(sql.Literal(f"({pages.last_page},0)"))
    if published.row_filter is not None:
        where += sql.SQL(" AND ({})").format(sql.SQL(published.row_filter))
    select = sql.SQL("SELECT {} FROM ONLY {} WHERE {}").format(columns, pages.leaf.identifier, where)
    return sql.SQL("COPY ({}) TO STDOUT").format(select)


def _explained(table: Table, error: psycopg.Error) -> CaptureError:
    if isinstance(error, psycopg.OperationalError) and not isinstance(error, psycopg.errors.ObjectInUse):
        return PostgresAway(f"the copy of {table.full_name} was cut off: {str(error).strip()}")
    return CaptureRefused(f"{table.full_name} can't be copied: {str(error).strip()}")


def spooled_rows(options: CaptureOptions, manifest: Manifest, slices: list[Slice]) -> Iterator[Row]:
    """Read some of the copied rows. Their offsets sort before those of all changes."""
    headers, types = Headers(manifest.lsn), manifest.types()
    records = {record.name: record for record in wanted(options, manifest)}
    streams, spool = Streams(options.routing, options.location), Spool(options.location, manifest.parts)
    for each in slices:
        if each.part.file == RESETS:
            for at, line in spool.lines(each):
                yield Row(line[:-1].decode(), _offset(at), headers.reset, None, None, "reset", None)
            continue
        record = records.get(each.part.table)
        if record is None:
            continue
        writer = RowWriter(record.name, record.shape, types)
        place, stream = streams.place(record.shape, record.name), options.routing.of_table(record.name)
        for at, values in spool.rows(each):
            key = writer.key(values)
            name = stream if stream is not None else streams.of_value(values[place or 0])
            message = writer.set(key, writer.value(values), headers.insert)
            yield Row(name, _offset(at), message, None, record.name, "insert", key)


def _offset(at: int) -> str:
    return f"{0:016x}-{at:016d}"


def wanted(options: CaptureOptions, manifest: Manifest) -> list[TableRecord]:
    """Return the tables that are still captured: those of the manifest that the options still name."""
    plain = {name.replace('"', "").removeprefix("public.") for name in options.tables}
    return [record for record in manifest.tables if record.given in options.tables or record.name in plain]
