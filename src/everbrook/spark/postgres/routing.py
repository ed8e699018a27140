"""The stream of each row: that of its table, the one of all tables, or the one that a column names.

A truncated table is a reset of its streams. Streams that a column names are known only from rows, so they are recorded
in a file, each with the position of its first row: the same position then gives the same streams again.
"""

import hashlib
import json
import os
import re
import threading
from pathlib import Path

from msgspec import Struct

from everbrook.spark.postgres.capture_position import Shape
from everbrook.spark.postgres.errors import CaptureRefused
from everbrook.spark.postgres.pgoutput import UNCHANGED, Tuple

Order = tuple[int, int]

NAMED = "streams.jsonl"
"""The file of streams that are named by a column."""
_ESCAPED = re.compile(rb"[\x00-\x20\x7f/\\%~?#]")
_MAX_VALUE_BYTES = 200
NULL, EMPTY = "~null", "~empty"
"""The segments for NULL and for empty text. `~` in a value is escaped, so that no value equals them."""


class Routing(Struct, frozen=True):
    """The options that name streams."""

    stream: str | None = None
    prefix: str = ""
    column: str | None = None

    def of_table(self, table: str) -> str | None:
        """Return the one stream of a table, if it has one."""
        if self.column is not None:
            return None
        return self.prefix + format_segment(table.encode()) if self.stream is None else self.stream

    def shared(self, table: str, tables: frozenset[str]) -> frozenset[str]:
        """Return the tables whose rows share streams with those of one table."""
        return frozenset({table}) if self.stream is None and self.column is None else tables


class Streams:
    """Names streams, and remembers those that a column has named."""

    def __init__(self, routing: Routing, folder: Path) -> None:
        self._routing = routing
        self._path = folder / NAMED
        self._by_value: dict[bytes | None, str] = {}
        self._first: dict[str, Order] = {}
        self._unwritten: list[str] = []
        # The receiver names streams in its thread, and the thread of Spark's batches writes them to the file.
        self._lock = threading.Lock()
        if routing.column is not None and self._path.exists():
            self._load()

    def _load(self) -> None:
        """Read the file.

        No batch depends on an incomplete line: the process was killed before the batch was planned.
        """
        text = self._path.read_text()
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            self._path.write_text(whole)
        for line in whole.splitlines():
            name, lsn, row = json.loads(line)
            self._first[name] = min(self._first.get(name, (lsn, row)), (lsn, row))

    def place(self, shape: Shape, table: str) -> int | None:
        """Find the column that names the stream. None if no column does."""
        column = self._routing.column
        if column is None:
            return None
        names = [each.name for each in shape.columns]
        if column not in names:
            raise CaptureRefused(f"{table} has no column {column!r} (streamColumn); its columns are {', '.join(names)}")
        return names.index(column)

    def of_row(self, values: Tuple, place: int, order: Order) -> str:
        value = values[place]
        if value is UNCHANGED:
            raise CaptureRefused("the column of streamColumn was not sent: its table needs REPLICA IDENTITY FULL")
        name = self._by_value.get(value) or self.of_value(value)
        if name not in self._first or self._first[name] > order:
            self.note(name, order)
        return name

    def note(self, name: str, order: Order) -> None:
        """Record the position of the first row of a stream."""
        with self._lock:
            self._first[name] = order
            self._unwritten.append(name)

    def of_value(self, value: bytes | None) -> str:
        """Return the stream that a value of the column names."""
        name = self._routing.prefix + format_segment(value)
        self._by_value[value] = name
        return name

    def of_table(self, table: str, order: Order) -> list[str]:
        """Return all streams that may have rows of a table before a position."""
        name = self._routing.of_table(table)
        if name is not None:
            return [name]
        with self._lock:
            return sorted(known for known, first in self._first.items() if first < order)

    def shared(self, table: str, tables: frozenset[str]) -> frozenset[str]:
        """Return the tables whose rows share streams with those of one table."""
        return self._routing.shared(table, tables)

    def write(self) -> None:
        """Append new streams to the file, and sync it."""
        with self._lock:
            lines = "".join(json.dumps([name, *self._first[name]]) + "\n" for name in self._unwritten)
            self._unwritten.clear()
        if lines and self._routing.column is not None:
            with self._path.open("a") as file:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())


def format_segment(value: bytes | None) -> str:
    """Format a value as a segment of a stream's path. Different values have different segments."""
    if not value:
        return NULL if value is None else EMPTY
    escaped = _ESCAPED.sub(lambda found: b"%%%02X" % found[0][0], value)
    if not escaped.strip(b"."):
        escaped = escaped.replace(b".", b"%2E")
    if len(escaped) > _MAX_VALUE_BYTES:
        return f"~{hashlib.sha256(value).hexdigest()}"
    return escaped.decode()
