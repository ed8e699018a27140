"""Feeds: the live readers that wait at the tail of a stream, in the order in which they joined.

All messages that become durable within one turn of the event loop are one batch. It is read once and delivered to
every reader. The first reader that needs an encoding of it leaves the encoding in the batch for the others.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from everbrook.engine.faults import Callback, Faults
from everbrook.protocol.errors import ProtocolError
from everbrook.protocol.read import Page

TURN_BYTES = 2 * 1024 * 1024
"""How many bytes of one batch are delivered in one turn of the event loop, over all readers: about 5 ms of copying."""
UNREADABLE = "the server failed to read the stream; its log says why"


class Batch:
    """A page that all live readers of a stream get at the same time, with its encodings."""

    __slots__ = ("encodings", "ends", "now", "page", "stored")

    def __init__(self, page: Page, stored: bytes, now: int, ends: Sequence[int] = ()) -> None:
        """`ends` are the offsets at which the messages of the page end. JSON needs none: its syntax shows the ends."""
        self.page = page
        self.stored = stored
        self.now = now
        self.ends = ends
        self.encodings: dict[object, bytes] = {}

    def encoded(self, key: object, encode: Callable[[], bytes]) -> bytes:
        """Return the encoding called `key`. The first call for it makes it."""
        encoding = self.encodings.get(key)
        if encoding is None:
            encoding = self.encodings[key] = encode()
        return encoding


class Reader(Protocol):
    """The interface of a live reader."""

    def deliver(self, batch: Batch) -> None:
        """Take a batch. The reader may leave the feed in this call."""

    def lag(self) -> None:
        """Leave the feed, and read on in a turn of the reader's own: the present turn has delivered enough."""

    def fail(self, error: ProtocolError) -> None:
        """End the read with an error. The reader has left the feed already."""


class Feed:
    """The live readers of one stream."""

    def __init__(self, next_batch: Callable[[int], Batch | None], faults: Faults) -> None:
        """`next_batch` returns the batch that begins at a position, or None at the tail."""
        self._next_batch = next_batch
        self._faults = faults
        self._readers: dict[Reader, None] = {}
        self._position = 0
        self._awake = False
        self._served: Reader | None = None

    def __len__(self) -> int:
        return len(self._readers)

    def join(self, reader: Reader, tail: int) -> None:
        """Add a reader that has everything before `tail`, the committed one."""
        if self._readers:
            # All readers of a feed have the same position. A delivery to the present ones may be scheduled for a later
            # turn, so they get it now, before the position moves to `tail`.
            self._deliver()
        self._position = tail
        self._readers[reader] = None

    def leave(self, reader: Reader) -> None:
        """Remove a reader, unless it has left already."""
        self._readers.pop(reader, None)

    def wake(self) -> None:
        """Deliver in a later turn, so that all messages that become durable in this turn are one batch."""
        if self._readers and not self._awake:
            self._awake = True
            self._faults.soon(Callback.READER, self._deliver_soon, failed=self._break_off)

    def _deliver_soon(self) -> None:
        self._awake = False
        self._deliver()

    def _deliver(self) -> None:
        while self._readers and (batch := self._read()):
            # The position moves first, because deliveries may be nested: a `join` within a delivery delivers to the
            # other readers, and that must begin behind this batch.
            self._position = batch.page.end
            served = self._served
            self._faults.each(Callback.READER, self._deliveries(len(batch.stored)), batch, self._give_up)
            self._served = served
            if batch.page.up_to_date:
                break

    def _break_off(self) -> None:
        self._awake = False
        self.end(ProtocolError(UNREADABLE))

    def _read(self) -> Batch | None:
        """Return the next batch. If it can't be read, end all readers with the error."""
        try:
            return self._next_batch(self._position)
        except ProtocolError as error:
            self.end(error)
        except Exception:  # noqa: BLE001 - the readers get any error
            self._faults.note(Callback.READER)
            self.end(ProtocolError(UNREADABLE))
        return None

    def _deliveries(self, size: int) -> Iterator[Callable[[Batch], None]]:
        """Yield the `deliver` of each reader that has not left by then. Those beyond `TURN_BYTES` lag."""
        # A copy, because readers leave, and join again, while they are served.
        readers = tuple(self._readers)
        at_once = max(1, TURN_BYTES // size) if size else len(readers)
        for reader in readers[:at_once]:
            if reader in self._readers:
                self._served = reader
                yield reader.deliver
        for reader in readers[at_once:]:
            if reader in self._readers:
                self._faults.run(Callback.READER, reader.lag)

    def _give_up(self) -> None:
        """End a reader that raised in a delivery: it is unknown how much of the batch it has sent."""
        reader = self._served
        if reader is not None:
            self._readers.pop(reader, None)
            self._fail(reader, ProtocolError(UNREADABLE))

    def _fail(self, reader: Reader, error: ProtocolError) -> None:
        self._faults.run(Callback.READER, reader.fail, error)

    def end(self, error: ProtocolError) -> None:
        """Remove all readers, and end each with the error."""
        # The readers are removed first: one that is ended may join another feed, or this one again.
        readers = tuple(self._readers)
        self._readers.clear()
        for reader in readers:
            self._fail(reader, error)
