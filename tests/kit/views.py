"""A view of streams kept in plain lists, for decisions without an engine.

A fork copies what it inherits: wasteful, and plainly right. Every change is checked for what holds of all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from everbrook.protocol import (
    Append,
    Change,
    Claim,
    Command,
    Create,
    CreateBucket,
    Drop,
    ForkFrom,
    Head,
    Identity,
    Outcome,
    Producer,
    PublishSnapshot,
    Retention,
    Write,
)
from everbrook.protocol.decide import decide
from everbrook.protocol.lifetime import ended
from everbrook.protocol.messages import unpack
from everbrook.protocol.subscriptions import Subscription, decode_events, fold
from everbrook.protocol.subscriptions.subscription import SubscriptionCommand

NOW = 1_800_000_000_000
WEEK = 7 * 86_400_000
TEXT = b"text/plain"
BYTES = b"application/octet-stream"
JSON = b"application/json"


def head_of(
    content_type: bytes = TEXT, *, tail: int = 0, closed: bool = False, incarnation: int = 1, name: bytes = b"s"
) -> Head:
    """A head that no decision made, for rules that need no more than one."""
    return Head(Identity(name, incarnation, content_type, content_type, NOW), tail, NOW, closed)


def numbered(
    seq: int,
    body: bytes = b"x",
    *,
    epoch: int = 0,
    producer: bytes = b"p",
    now: int = NOW,
    close: bool = False,
) -> Append:
    """An append to the text stream `s` that a producer numbered."""
    return Append(b"s", now, TEXT, body, close, Claim(producer, epoch, seq))


@dataclass
class KeptStream:
    """One stream: its bytes, where its messages and its appends end, and what is remembered of it."""

    head: Head
    touched_at: int = NOW
    followed: bool = False
    fork_count: int = 0
    stored: bytes = b""
    ends: list[int] = field(default_factory=list)
    append_ends: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    producers: dict[bytes, Producer] = field(default_factory=dict)

    @property
    def boundaries(self) -> "KeptStream":
        return self

    def producer(self, producer_id: bytes) -> Producer | None:
        return self.producers.get(producer_id)

    def idle_producers(self, now: int) -> tuple[bytes, ...]:
        return tuple(name for name, known in self.producers.items() if known.seen_at < now - WEEK)

    def is_boundary(self, offset: int) -> bool:
        return offset in {0, *self.ends}

    def boundary_at_or_before(self, offset: int) -> int:
        return max(end for end in (0, *self.ends) if end <= offset)

    def boundary_after(self, offset: int) -> int:
        return min(end for end in self.ends if end > offset)

    def append_end(self, offset: int) -> int:
        return min(end for end in self.append_ends if end > offset)

    def seek(self, offset: int, count: int, bound: int) -> int:
        boundaries = [0, *self.ends]
        reached = boundaries[max(0, min(boundaries.index(offset) + count, len(self.ends)))]
        if count == 0:
            return offset
        return min(reached, bound) if count > 0 else max(reached, bound)

    def first_since(self, start: int, end: int, time: int) -> int:
        starts = zip((0, *self.ends), self.times, strict=False)
        return next((at for at, when in starts if start <= at < end and when >= time), end)

    def fork_at(self, head: Head, offset: int) -> "KeptStream":
        inherited = [min(end, offset) for start, end in zip((0, *self.ends), self.ends, strict=False) if start < offset]
        return KeptStream(
            head,
            head.written_at,
            stored=self.stored[:offset],
            ends=inherited,
            append_ends=[*(end for end in self.append_ends if end < offset), offset],
            times=self.times[: len(inherited)],
        )

    def is_whole_with(self, head: Head) -> bool:
        """Tell whether what is not retained was on a boundary, retained until now, and is covered by a snapshot."""
        kept = head.kept
        covered = kept.snapshot is not None and kept.earliest <= kept.snapshot.offset <= head.tail
        retained = self.head.kept.earliest <= kept.earliest and self.is_boundary(kept.earliest)
        return retained and (covered or kept.earliest == 0)

    def write(self, write: Write) -> None:
        assert write.head.identity.incarnation == self.head.identity.incarnation
        assert write.head.tail == len(self.stored) + len(write.data)
        assert bool(write.data) == bool(write.ends)
        assert not write.ends or write.ends[-1] == write.head.tail
        assert list(write.ends) == sorted(set(write.ends))
        assert write.cut or write.head.kept == self.head.kept
        assert self.is_whole_with(write.head)
        self.head, self.touched_at = write.head, write.head.written_at
        self.stored += write.data
        self.ends.extend(write.ends)
        self.append_ends.extend(write.ends[-1:])
        self.times.extend(write.head.written_at for _ in write.ends)
        for producer_id in write.forgotten:
            del self.producers[producer_id]
        if write.producer_id is not None:
            assert write.producer is not None
            self.producers[write.producer_id] = write.producer


class Streams:
    """The streams of a server that remembers in dicts. It is the `View` of the decisions it runs."""

    def __init__(self) -> None:
        self.kept: dict[bytes, KeptStream] = {}
        self._incarnation = 0

    def stream(self, name: bytes) -> KeptStream | None:
        return self.kept.get(name)

    def populated(self, prefix: bytes) -> bool:
        return any(name.startswith(prefix) for name in self.kept)

    def living(self, prefix: bytes, now: int) -> Iterator[Head]:
        for name, stream in self.kept.items():
            if name.startswith(prefix) and not ended(stream.head, stream, now):
                yield stream.head

    def subscription(self, name: bytes) -> Subscription | None:
        """Fold a subscription out of its record, from the beginning, every time."""
        record, folded = self.kept.get(name), None
        if record and record.stored:
            retained = record.stored[record.head.kept.earliest :]
            for event in decode_events(unpack(record.head.identity, retained)):
                folded = fold(folded, event)
        return folded

    def next_incarnation(self) -> int:
        self._incarnation += 1
        return self._incarnation

    def run(self, command: Command | SubscriptionCommand) -> Outcome:
        """Decide on a command and keep what it changes."""
        decision = decide(self, command)
        self.keep(decision.change)
        return decision.outcome

    def keep(self, change: Change) -> None:
        for edit in change:
            if isinstance(edit, Drop):
                self._drop(edit.head)
            else:
                self._write(edit)

    def _drop(self, head: Head) -> None:
        dropped = self.kept.pop(head.identity.name)
        assert dropped.head is head
        assert dropped.fork_count == 0, "forks still read what was dropped"
        if fork := head.identity.fork:
            self.kept[fork.source].fork_count -= 1

    def _write(self, write: Write) -> None:
        identity = write.head.identity
        stream = self.kept.get(identity.name)
        assert write.created == (stream is None)
        if stream is None:
            stream = self.kept[identity.name] = self._admit(write.head)
        stream.write(write)

    def _admit(self, head: Head) -> KeptStream:
        fork = head.identity.fork
        if fork is None:
            return KeptStream(head)
        source = self.kept[fork.source]
        assert source.head.identity.incarnation == fork.source_incarnation
        source.fork_count += 1
        return source.fork_at(head, fork.offset)

    def hold(
        self,
        name: bytes,
        *bodies: bytes,
        content_type: bytes = TEXT,
        ttl_secs: int | None = None,
        retention: Retention | None = None,
    ) -> KeptStream:
        """Create a stream and append each body to it."""
        incarnation = self.next_incarnation()
        self.run(Create(name, NOW, incarnation, content_type, ttl_secs=ttl_secs, retention=retention))
        for body in bodies:
            self.run(Append(name, NOW, content_type, body))
        return self.kept[name]

    def bucket(self, bucket_id: bytes, retention: Retention | None = None) -> None:
        """Create a bucket."""
        self.run(CreateBucket(bucket_id, NOW, self.next_incarnation(), retention))

    def publish(self, name: bytes, offset: int, *, keep_history: bool = False) -> KeptStream:
        """Publish a snapshot of a stream."""
        owner, blob = self.kept[name].head.identity.incarnation, self.next_incarnation()
        self.run(PublishSnapshot(name, NOW, offset, TEXT, owner, blob, 5, b"d" * 32, keep_history))
        return self.kept[name]

    def fork(self, name: bytes, source: bytes, offset: int | None = None, sub_offset: int = 0) -> KeptStream:
        """Create a fork."""
        self.run(Create(name, NOW, self.next_incarnation(), fork=ForkFrom(source, offset, sub_offset)))
        return self.kept[name]
