"""Feeds: those who wait at a stream's tail, in the order in which they came.

What becomes durable within one turn of the loop is one batch, read once and handed to every reader; a reader that
encodes it leaves the encoding in the batch for the others.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from everbrook.engine.faults import Callback, Faults
from everbrook.protocol.errors import ProtocolError
from everbrook.protocol.reading import Page

UNREADABLE = "the server failed to read the stream; its log says why"


class Batch:
    """A page that all live readers of a stream get at one moment, with what they have made of it."""

    __slots__ = ("encodings", "ends", "now", "page", "stored")

    def __init__(self, page: Page, stored: bytes, now: int, ends: Sequence[int] = ()) -> None:
        """Take the page. `ends` are the offsets at which its messages end, but not of JSON, which shows them itself."""
        self.page = page
        self.stored = stored
        self.now = now
        self.ends = ends
        self.encodings: dict[object, bytes] = {}

    def encoded(self, key: object, encode: Callable[[], bytes]) -> bytes:
        """Give the encoding called `key`, made by the first reader that asks for it."""
        encoding = self.encodings.get(key)
        if encoding is None:
            encoding = self.encodings[key] = encode()
        return encoding


class Reader(Protocol):
    """Somebody who waits at the tail."""

    def deliver(self, batch: Batch) -> None:
        """Take what has come. The reader may leave the feed in this call."""

    def fail(self, error: ProtocolError) -> None:
        """Learn that the stream has ended; the reader is out of the feed."""


class Feed:
    """The readers at the tail of one stream."""

    def __init__(self, next_batch: Callable[[int], Batch | None], faults: Faults) -> None:
        """Take readers in. `next_batch` gives what is to be delivered from a position on, or None."""
        self._next_batch = next_batch
        self._faults = faults
        self._readers: dict[Reader, None] = {}
        self._position = 0
        self._awake = False
        self._served: Reader | None = None

    def __len__(self) -> int:
        return len(self._readers)

    def join(self, reader: Reader, tail: int) -> None:
        """Let a reader wait that has everything before `tail`, the committed one."""
        if self._readers:
            self._deliver()
        self._position = tail
        self._readers[reader] = None

    def leave(self, reader: Reader) -> None:
        """Let a reader go. It is no error if it has gone already."""
        self._readers.pop(reader, None)

    def wake(self) -> None:
        """Deliver what is new, soon: everything that becomes durable in this turn of the loop goes out together."""
        if self._readers and not self._awake:
            self._awake = True
            self._faults.soon(Callback.READER, self._deliver_soon, failed=self._break_off)

    def _deliver_soon(self) -> None:
        self._awake = False
        self._deliver()

    def _deliver(self) -> None:
        while self._readers and (batch := self._read()):
            self._position = batch.page.end
            # A reader may have others delivered to before it is done.
            served = self._served
            self._faults.each(Callback.READER, self._deliveries(), batch, self._give_up)
            self._served = served
            if batch.page.up_to_date:
                break

    def _break_off(self) -> None:
        self._awake = False
        self.end(ProtocolError(UNREADABLE))

    def _read(self) -> Batch | None:
        """Give the next batch. If it can't be read, no reader waits for it any longer."""
        try:
            return self._next_batch(self._position)
        except ProtocolError as error:
            self.end(error)
        except Exception:  # noqa: BLE001 - the readers are told, whatever it is
            self._faults.note(Callback.READER)
            self.end(ProtocolError(UNREADABLE))
        return None

    def _deliveries(self) -> Iterator[Callable[[Batch], None]]:
        """Give what takes a batch, of everybody who is there still when their turn comes."""
        for reader in tuple(self._readers):
            if reader in self._readers:
                self._served = reader
                yield reader.deliver

    def _give_up(self) -> None:
        """End a reader that failed in the middle of a delivery: nobody knows what it has."""
        reader = self._served
        if reader is not None:
            self._readers.pop(reader, None)
            self._fail(reader, ProtocolError(UNREADABLE))

    def _fail(self, reader: Reader, error: ProtocolError) -> None:
        self._faults.run(Callback.READER, reader.fail, error)

    def end(self, error: ProtocolError) -> None:
        """Tell every reader that the stream has ended."""
        readers = tuple(self._readers)
        self._readers.clear()
        for reader in readers:
            self._fail(reader, error)
