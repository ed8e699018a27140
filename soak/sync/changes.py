"""Changes of tables: what a transaction wrote down of each, and the messages that have to come of it.

Each change has a number of its own, so each message can be told from all others: by the row that it sets, or by the
one that it removes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from soak.sync.scene import stream_of

_LARGE_BYTES, _SMALL_BYTES, _LARGE_EACH = 3000, 20, 8
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A row, but for its body, which follows from the tag."""

    key: str
    room: str
    change: int
    tag: int

    @property
    def value(self) -> Json:
        """The row as a message has it."""
        return {"id": self.key, "room": self.room, "change": self.change, "tag": self.tag, "body": body(self.tag)}


@dataclass(frozen=True, slots=True)
class Entry:
    """A change as its transaction wrote it down. Rows that the initial copy has are at the place 0."""

    change: int
    writer: int
    place: int
    source: str
    new: Row | None
    old: Row | None


@dataclass(frozen=True, slots=True)
class Event:
    """A message that has to be in a stream once, behind all of the same writer that have a smaller place."""

    stream: str
    identity: tuple[str, str, str, int]
    """The type, the operation, the key, and the number of the change that made the row that it sets or removes."""
    writer: int
    place: int
    value: Json | None


def body(tag: int) -> str:
    """Make the body of a row. Some are so large that Postgres keeps them elsewhere, and logs them when they change."""
    random = Random(tag)  # noqa: S311 - it must be the same again
    return random.randbytes(_LARGE_BYTES if tag % _LARGE_EACH == 0 else _SMALL_BYTES).hex()


def events_of(entry: Entry) -> list[Event]:
    """Give the messages of a change: a row that gets another key or stream is removed and inserted."""
    old, new = entry.old, entry.new
    if old is not None and new is not None and _place(entry, old) == _place(entry, new):
        return [_event(entry, "update", new)]
    removed = [] if old is None else [_event(entry, "delete", old)]
    return [*removed, *([] if new is None else [_event(entry, "insert", new)])]


def _place(entry: Entry, row: Row) -> tuple[str, str]:
    return row.key, stream_of(entry.source, row.room)


def _event(entry: Entry, operation: str, row: Row) -> Event:
    identity = (entry.source, operation, row.key, row.change)
    value = None if operation == "delete" else row.value
    return Event(stream_of(entry.source, row.room), identity, entry.writer, entry.place, value)


def identity_of(message: Mapping[str, Any]) -> tuple[str, str, str, int]:
    """Tell which change a message is of."""
    operation = message["headers"]["operation"]
    row = message["old_value" if operation == "delete" else "value"]
    return message["type"], operation, message["key"], row["change"]
