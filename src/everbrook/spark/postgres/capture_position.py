"""Positions of a capture, as a checkpoint keeps them, and the names of the files that a capture keeps.

Rows of the initial copy come first, counted by bytes of its files. Then come changes, by the LSN of the commit of their
transaction and their number within it. `lsn` and `row` mean: all transactions committed before that LSN, and the first
`row` changes of the one that was committed exactly there. So everything before `lsn` may be confirmed to the slot.
"""

from typing import Any

from msgspec import Struct, convert, to_builtins

from everbrook.spark.postgres.pgoutput import Column

VERSION = 1
MANIFEST, MARKER = "capture.json", "begun.json"
RESETS = "resets.copy"
"""The first part of a copy: the streams that an earlier capture wrote and this one resets, one on each line."""


class Shape(Struct, frozen=True, omit_defaults=True):
    """The columns of a table, and those that are the key of its rows."""

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    attributes: tuple[int, ...] = ()
    """The numbers of the key's columns in Postgres' catalogue, which stay when a column is renamed."""


class CapturePosition(Struct, frozen=True, omit_defaults=True):
    """A position between two rows, in the copy or in the log."""

    postgres: int
    """The version of this format. It also distinguishes these positions from those of other sources."""
    lsn: int = 0
    row: int = 0
    copied_bytes: int | None = None
    """How much of the initial copy has been read, until it is all read."""
    shapes: dict[str, Shape] = {}
    """Tables whose shape has changed since they were copied."""

    @property
    def order(self) -> tuple[int, int]:
        """The sort key of positions among changes."""
        return self.lsn, self.row


def parse_position(given: dict[str, Any]) -> CapturePosition | None:
    """Read a position of a checkpoint. None if the capture has not begun."""
    if not given:
        return None
    parsed = dict(given, lsn=parse_lsn(given["lsn"])) if "lsn" in given else given
    return convert(parsed, CapturePosition)


def format_position(position: CapturePosition) -> dict[str, Any]:
    written: dict[str, Any] = to_builtins(position)
    return dict(written, lsn=format_lsn(position.lsn)) if position.lsn else written


def parse_lsn(text: str) -> int:
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def format_lsn(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
