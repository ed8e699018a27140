"""Views: the records that a decision rests on, as the engine or a transaction has loaded them."""

from typing import Protocol

from everbrook.protocol.state import Head, Producer
from everbrook.protocol.subscriptions.subscription import Subscription


class Boundaries(Protocol):
    """Where the messages of a stream begin and end. Positions are not beyond the tail."""

    def is_boundary(self, offset: int) -> bool:
        """Return whether a message begins or ends at `offset`."""

    def boundary_at_or_before(self, offset: int) -> int:
        """Return the last message boundary not greater than `offset`."""

    def boundary_after(self, offset: int) -> int:
        """Return the first message boundary greater than `offset`, which lies before the tail."""

    def append_end(self, offset: int) -> int:
        """Return the end of the append that holds the byte at `offset`, which lies before the tail."""

    def seek(self, offset: int, count: int, bound: int) -> int:
        """Go `count` messages on from a boundary, backwards if negative, but not beyond `bound`."""

    def first_since(self, start: int, end: int, time: int) -> int:
        """Return where the first message between two boundaries begins that was appended at `time` or later."""


class StreamView(Protocol):
    """One stream as a decision sees it: the newest state, durable or about to be."""

    @property
    def boundaries(self) -> Boundaries:
        """Where the messages of the stream begin and end, those of its sources included."""

    @property
    def head(self) -> Head:
        """The head that the next change replaces."""

    @property
    def touched_at(self) -> int:
        """When the stream was last read or written, for a sliding expiry."""

    @property
    def followed(self) -> bool:
        """Whether somebody waits at the tail: that keeps a sliding expiry from coming (§5.1)."""

    @property
    def fork_count(self) -> int:
        """How many streams branch off this one."""

    def producer(self, producer_id: bytes) -> Producer | None:
        """Return what the stream remembers of a producer."""

    def idle_producers(self, now: int) -> tuple[bytes, ...]:
        """Return the producers that have been silent for so long that they need not be remembered."""


class View(Protocol):
    """The streams of a server, by name."""

    def stream(self, name: bytes) -> StreamView | None:
        """Return a stream that has not been dropped; it may be expired or soft-deleted."""

    def populated(self, prefix: bytes) -> bool:
        """Return whether there is a stream whose name begins with `prefix`."""

    def subscription(self, name: bytes) -> Subscription | None:
        """Return a subscription as it is now, by the name of its record."""
