"""Feeds: those who wait at a stream's tail, in the order in which they came.

What becomes durable within one turn of the loop is one batch, read once and handed to every reader; a reader that
encodes it leaves the encoding in the batch for the others.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from everbrook.engine.clock import Scheduler
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

    def __init__(self, scheduler: Scheduler, next_batch: Callable[[int], Batch | None], faults: Faults) -> None:
        """Take readers in. `next_batch` gives what is to be delivered from a position on, or None."""
        self._scheduler = scheduler
        self._next_batch = next_batch
        self._faults = faults
        self._readers: dict[Reader, None] = {}
        self._position = 0
        self._awake = False

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
            self._scheduler.call_soon(self._deliver_soon)

    def _deliver_soon(self) -> None:
        self._awake = False
        self._deliver()

    def _deliver(self) -> None:
        while self._readers and (batch := self._read()):
            self._position = batch.page.end
            for reader in tuple(self._readers):
                if reader in self._readers:
                    try:
                        reader.deliver(batch)
                    except Exception:  # noqa: BLE001 - one that fails stops no other
                        self._faults.note(Callback.READER)
                        self._give_up(reader)
            if batch.page.up_to_date:
                break

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

    def _give_up(self, reader: Reader) -> None:
        """End a reader that failed in the middle of a delivery: nobody knows what it has."""
        self._readers.pop(reader, None)
        self._fail(reader, ProtocolError(UNREADABLE))

    def _fail(self, reader: Reader, error: ProtocolError) -> None:
        try:
            reader.fail(error)
        except Exception:  # noqa: BLE001 - one that fails stops no other
            self._faults.note(Callback.READER)

    def end(self, error: ProtocolError) -> None:
        """Tell every reader that the stream has ended."""
        readers = tuple(self._readers)
        self._readers.clear()
        for reader in readers:
            self._fail(reader, error)
