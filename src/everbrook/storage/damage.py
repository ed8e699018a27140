"""Damage: what was acknowledged and can't be read any more.

A torn write is not damage: a crash cut it off before it was acknowledged, and the store goes on without it.
"""

from msgspec import Struct

from everbrook.protocol.errors import StreamDamaged


class Damage(Struct, frozen=True):
    """Stored bytes that are not what was written, and where they are."""

    place: str
    """The file, and the position or the row in it."""
    problem: str
    streams: tuple[int, ...] = ()
    """The incarnations of the streams that have lost something. Empty: it is not known which."""

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


class DamageMark(Struct, frozen=True):
    """What is known of a damaged stream: its own bytes are readable up to `offset`; `reason` says what is behind."""

    offset: int
    reason: str


class Damaged(StreamDamaged):
    """A read met damage: of which stream, or of its snapshot, from which of its offsets on, and where that is."""

    def __init__(self, incarnation: int, offset: int, place: str, problem: str, what: str = "stream") -> None:
        super().__init__(f"the {what} is damaged from offset {offset} on: {place}: {problem}")
        self.incarnation = incarnation
        self.mark = DamageMark(offset, f"{place}: {problem}")
