"""The initial copy on disk: what Postgres wrote for COPY, byte by byte, and a manifest that says it is complete.

A manifest is written last, and only when all else is on disk, so that a copy is there or is not. From then on its rows
have positions: the number of the byte they begin at, counted through all files in the order of the manifest. The
bytes are read as often as a batch is asked for, and deleted once the last of its batches is committed.
"""

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import Struct

from everbrook.spark.capture.errors import START_OVER, ChangesLost
from everbrook.spark.capture.pgoutput import Tuple
from everbrook.spark.capture.positions import Shape
from everbrook.spark.capture.rendering import Types
from everbrook.spark.capture.routing import Routing

MANIFEST, MARKER = "capture.json", "begun.json"
RESETS = "resets.copy"
"""The first part of a copy: the streams that an earlier capture wrote and this one resets, one on each line."""
_BLOCK_BYTES = 1024 * 1024
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)


class TableRecord(Struct, frozen=True):
    """A table as it was when its capture began."""

    oid: int
    given: str
    """How the user has named it."""
    name: str
    """What its messages have as their type."""
    shape: Shape
    member: int | None = None
    """The number of its entry in the publication, if it has one of its own."""
    partitioned: bool = False


class Part(Struct, frozen=True):
    """A file of rows of one table."""

    table: str
    file: str
    size_bytes: int


class Manifest(Struct, frozen=True):
    """Where a capture begins."""

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
        """The length of all files."""
        return sum(part.size_bytes for part in self.parts)

    def types(self) -> Types:
        """Give how values of the columns are written."""
        types = Types()
        types.tell(self.bases, self.elements)
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
    """Write a file that is there with all its bytes, or not at all."""
    temporary = folder / f".{name}.tmp"
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / name)
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """See to it that the names in a folder are on disk."""
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
        """Part a range of bytes by files."""
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
                f"the copy of {part.table} was read before, and {part.file} is no longer in {self._folder}: this is "
                f"another checkpoint than the one that goes with it, or an older state of it. {START_OVER}"
            )

    def end_of(self, start: int, max_rows: int, max_bytes: int) -> int:
        """Find where so many rows end, or the rows in so many bytes: at least one row.

        A batch of resets has no rows, because the tasks of a batch write in any order.
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
        """Part a range among tasks, at the ends of rows."""
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
        """Forget the rows, which have all been read."""
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
