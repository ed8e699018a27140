"""Damage: acknowledged bytes that can't be read any more.

A torn write is not damage: a crash cut it off before it was acknowledged, and the store works on without it.
"""

from msgspec import Struct

from everbrook.protocol.errors import StreamDamaged


class Damage(Struct, frozen=True):
    """Stored bytes that differ from those that were written, and their place."""

    place: str
    """The file, and the position or the row in it."""
    problem: str
    streams: tuple[int, ...] = ()
    """The incarnations of the streams that have lost bytes. Empty: they are unknown."""

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


class DamageMark(Struct, frozen=True):
    """Marks a stream whose own bytes are readable up to `offset` only, with the reason."""

    offset: int
    reason: str


class Damaged(StreamDamaged):
    """A read met damage to a stream or to its snapshot."""

    def __init__(self, incarnation: int, offset: int, place: str, problem: str, what: str = "stream") -> None:
        super().__init__(f"the {what} is damaged from offset {offset} on: {place}: {problem}")
        self.incarnation = incarnation
        self.mark = DamageMark(offset, f"{place}: {problem}")
