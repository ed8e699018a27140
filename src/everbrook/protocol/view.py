"""Views: the interface through which a decision reads the streams."""

from typing import Protocol

from everbrook.protocol.state import Head, Producer
from everbrook.protocol.subscriptions.subscription import Subscription


class Boundaries(Protocol):
    """The message boundaries of a stream. Positions are not beyond the tail."""

    def is_boundary(self, offset: int) -> bool:
        """Return whether a message begins or ends at `offset`."""

    def boundary_at_or_before(self, offset: int) -> int:
        """Return the last message boundary not greater than `offset`."""

    def boundary_after(self, offset: int) -> int:
        """Return the first message boundary greater than `offset`, which lies before the tail."""

    def append_end(self, offset: int) -> int:
        """Return the end of the append that holds the byte at `offset`, which lies before the tail."""

    def seek(self, offset: int, count: int, bound: int) -> int:
        """Move `count` messages on from a boundary, backwards if negative, but not beyond `bound`."""

    def first_since(self, start: int, end: int, time: int) -> int:
        """Return the beginning of the first message between two boundaries that was appended at `time` or later."""


class StreamView(Protocol):
    """One stream as a decision sees it: the newest state, which includes pending changes."""

    @property
    def boundaries(self) -> Boundaries:
        """The message boundaries of the stream and its sources."""

    @property
    def head(self) -> Head:
        """The head that the next change replaces."""

    @property
    def touched_at(self) -> int:
        """When the stream was last read or written, for a sliding expiry."""

    @property
    def followed(self) -> bool:
        """Whether a live reader waits at the tail: it keeps a sliding TTL from running out (§5.1)."""

    @property
    def fork_count(self) -> int:
        """The number of forks of this stream."""

    def producer(self, producer_id: bytes) -> Producer | None:
        """Return the state of a producer; None if the stream does not know it."""

    def idle_producers(self, now: int) -> tuple[bytes, ...]:
        """Return the producers that have been idle for so long that they may be forgotten."""


class View(Protocol):
    """The streams of a server, by name."""

    def stream(self, name: bytes) -> StreamView | None:
        """Return a stream that has not been dropped; it may be expired or soft-deleted."""

    def populated(self, prefix: bytes) -> bool:
        """Return whether there is a stream whose name begins with `prefix`."""

    def subscription(self, name: bytes) -> Subscription | None:
        """Return a subscription as it is now, by the name of its record."""
