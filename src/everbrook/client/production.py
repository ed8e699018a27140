"""The batches of a producer and their sequence numbers, which make the server store each message once (§5.2.1).

The rule: a batch keeps its epoch and sequence number until the server has accepted it, however often it is sent. Only
the claim of a new epoch numbers batches anew, and only those that the server certainly has not accepted.
"""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

MAX_BUFFERED_BATCHES = 8
MAX_POSITION_BYTES = 1024


class Batching(Struct, frozen=True):
    """The size of batches: one is sent when it is full, or `linger_secs` after its first message."""

    max_batch_bytes: int = 1024 * 1024
    max_batch_items: int = 10_000
    linger_secs: float = 0.005
    max_in_flight: int = 5

    def __post_init__(self) -> None:
        """Check the bounds."""
        for name in ("max_batch_bytes", "max_batch_items", "max_in_flight"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.linger_secs < 0:
            raise ValueError(f"linger_secs must not be negative, got {self.linger_secs}")

    @property
    def max_buffered_bytes(self) -> int:
        """The number of buffered bytes at which `append` waits (back-pressure)."""
        return self.max_batch_bytes * MAX_BUFFERED_BATCHES


class ProducerBatch:
    """Messages that are sent in one request, under one sequence number."""

    def __init__(self, messages: list[bytes], *, closes: bool = False) -> None:
        self.messages = messages
        self.closes = closes
        self.epoch = 0
        self.seq = 0
        self.place = 0
        """Its place in the order of all batches. A claim renumbers batches and keeps their places."""
        self.position: str | None = None
        """The position of its last message in the source, if there is one."""
        self.resumes_from: str | None = None
        """The position that the server must have stored before this batch."""


class Production:
    """The queue of a producer: batches to send, batches in flight, and the next sequence number."""

    def __init__(self, producer_id: str, epoch: int, seq: int, batching: Batching) -> None:
        """Begin at a sequence number in an epoch: 0, unless a known sequence continues."""
        if not producer_id:
            raise ValueError("the id of a producer must not be empty")
        if not _is_header_text(producer_id):
            raise ValueError(
                f"the id of a producer must be printable ASCII, as it is sent in a header, got {producer_id!r}"
            )
        if epoch < 0 or seq < 0:
            raise ValueError(f"epoch and sequence number must not be negative, got {epoch} and {seq}")
        self.producer_id = producer_id
        self.epoch = epoch
        self.next_seq = seq
        self._batching = batching
        self._messages: list[bytes] = []
        self._bytes = 0
        self._since = 0.0
        self._full: deque[ProducerBatch] = deque()
        self._full_bytes = 0
        self._numbered: deque[ProducerBatch] = deque()
        self._in_flight: dict[int, ProducerBatch] = {}
        self._fenced: list[ProducerBatch] = []
        self._opened = False
        self._batches = 0
        self._position: str | None = None
        self._sealed_position: str | None = None

    def resume(self, epoch: int, position: str) -> None:
        """Continue in a new epoch from the stored position, or from an empty one if there is none."""
        self.epoch, self._position, self._sealed_position = epoch, position, position

    @property
    def room(self) -> bool:
        """Whether the buffer has room for another message."""
        return self._full_bytes + self._bytes < self._batching.max_buffered_bytes

    @property
    def idle(self) -> bool:
        """Whether every batch was accepted."""
        return not (self.waiting or self._in_flight or self._fenced)

    @property
    def waiting(self) -> bool:
        """Whether there are messages to send, now or after lingering."""
        return bool(self._messages or self._full or self._numbered)

    def mark(self) -> int:
        """Make all messages ready to send, and return a mark for `arrived`."""
        self._seal()
        return self._batches

    def arrived(self, mark: int) -> bool:
        """Return whether every batch before a mark was accepted."""
        return all(batch.place >= mark for batch in self._outstanding())

    def _outstanding(self) -> Iterator[ProducerBatch]:
        """Yield the batches that are not accepted yet; of an ordered queue only the first."""
        yield from self._in_flight.values()
        yield from self._fenced
        yield from (queue[0] for queue in (self._numbered, self._full) if queue)

    def add(self, message: bytes, now: float, position: str | None = None) -> bool:
        """Add a message. Returns whether a worker must be woken, because a batch was started or is full."""
        self._require_position(position)
        overflows = bool(self._messages) and self._bytes + len(message) > self._batching.max_batch_bytes
        if overflows:
            self._seal()
        begun = not self._messages
        if begun:
            self._since = now
        self._messages.append(message)
        self._position = position
        self._bytes += len(message) + 1
        full = len(self._messages) >= self._batching.max_batch_items or self._bytes >= self._batching.max_batch_bytes
        if full:
            self._seal()
        return begun or full or overflows

    def _require_position(self, position: str | None) -> None:
        """Check that a producer that resumes gets a position with each message, and another producer none."""
        if (position is None) != (self._position is None):
            raise ValueError(
                "only a producer that was made with resume=True takes a position"
                if self._position is None
                else "a producer that resumes needs a position with each message"
            )
        if position is not None and not (0 < len(position) <= MAX_POSITION_BYTES and _is_header_text(position)):
            raise ValueError(
                f"a position must be 1 to {MAX_POSITION_BYTES} characters of printable ASCII without outer spaces, "
                f"got {position!r}"
            )

    def end(self, message: bytes | None, position: str | None = None) -> None:
        """Queue the closure of the stream, after all added messages, with a last message if there is one."""
        if message is not None or position is not None:
            self._require_position(position)
        self._seal()
        self._position = position or self._position
        self._push(ProducerBatch([] if message is None else [message], closes=True))

    def _seal(self) -> None:
        if self._messages:
            self._push(ProducerBatch(self._messages))
            self._messages, self._bytes = [], 0

    def _push(self, batch: ProducerBatch) -> None:
        batch.place = self._batches
        batch.resumes_from, batch.position = self._sealed_position, self._position
        self._sealed_position = self._position
        self._batches += 1
        self._full.append(batch)
        self._full_bytes += _size(batch)

    def ready(self, now: float) -> bool:
        """Return whether a batch may be sent now. The first of an epoch is sent alone, because it must arrive first.

        A batch that closes the stream is sent alone too: if responses to other batches were lost, a closed stream does
        not say whether it has stored them.
        """
        if not self._free:
            return False
        if queue := self._numbered or self._full:
            return not (queue[0].closes and self._in_flight)
        return bool(self._messages) and now >= self._due

    @property
    def _free(self) -> bool:
        slots = self._batching.max_in_flight if self._opened else 1
        return not self._fenced and len(self._in_flight) < slots

    @property
    def _due(self) -> float:
        return self._since + self._batching.linger_secs

    def wait_secs(self, now: float) -> float | None:
        """Return the time until a lingering batch is ready; None if no time is known."""
        return max(0.0, self._due - now) if self._messages and self._free else None

    def take(self) -> ProducerBatch:
        """Take the next batch. A batch gets its number when it is first taken."""
        if self._numbered:
            batch = self._numbered.popleft()
        else:
            if not self._full:
                self._seal()
            batch = self._full.popleft()
            self._full_bytes -= _size(batch)
            self._number(batch)
        self._in_flight[batch.seq] = batch
        return batch

    def _number(self, batch: ProducerBatch) -> None:
        batch.epoch, batch.seq = self.epoch, self.next_seq
        self.next_seq += 1

    def follows(self, batch: ProducerBatch) -> bool:
        """Return whether earlier batches are in flight. Until they are accepted, the server refuses this one."""
        return any(seq < batch.seq for seq in self._in_flight)

    def accepted(self, batch: ProducerBatch) -> None:
        """Record that the server accepted a batch."""
        del self._in_flight[batch.seq]
        self._opened = True
        self._claim()

    def fenced(self, batch: ProducerBatch, epoch: int) -> None:
        """Claim the epoch after `epoch` as soon as the outcome of every batch in flight is known."""
        del self._in_flight[batch.seq]
        self._fenced.append(batch)
        self.epoch = max(self.epoch, epoch + 1)
        self._claim()

    def _claim(self) -> None:
        # A batch in flight may still be accepted under its old number. Under a new one it would be stored twice.
        if self._in_flight or not self._fenced:
            return
        again = sorted((*self._fenced, *self._numbered), key=lambda batch: batch.place)
        self._fenced, self._numbered = [], deque(again)
        self.next_seq, self._opened = 0, False
        for batch in again:
            self._number(batch)


def _size(batch: ProducerBatch) -> int:
    return sum(map(len, batch.messages)) + len(batch.messages)


def _is_header_text(text: str) -> bool:
    return text.isascii() and text.isprintable() and text == text.strip()
