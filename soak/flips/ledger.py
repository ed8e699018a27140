"""The ledger: what a store has acknowledged, after each change, as plain values."""

from collections.abc import Iterator
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from everbrook.protocol import Change, Drop, Head, Producer, Write


class Stream(Struct, frozen=True):
    """A stream after a change: its head, and its own bytes with what stands beside them."""

    head: Head
    data: bytes = b""
    ends: tuple[int, ...] = ()
    append_ends: tuple[int, ...] = ()
    times: tuple[int, ...] = ()
    producers: dict[bytes, Producer] = {}

    @property
    def incarnation(self) -> int:
        return self.head.identity.incarnation

    @property
    def first(self) -> int:
        """Where its own bytes begin."""
        return self.head.identity.first_own_offset

    @property
    def retained(self) -> int:
        """From where on its own bytes are retained for its own readers."""
        return max(self.first, min(self.head.kept.earliest, self.head.tail))

    def read(self, start: int, end: int) -> bytes:
        return self.data[start - self.first : end - self.first]

    def messages(self, start: int, end: int) -> list[tuple[int, int]]:
        """Give ends and times of the messages that end after `start` and not after `end`."""
        return [(each, time) for each, time in zip(self.ends, self.times, strict=True) if start < each <= end]

    def after(self, write: Write) -> "Stream":
        """Give the stream after a write to it."""
        producers = {known: state for known, state in self.producers.items() if known not in write.forgotten}
        if write.producer_id is not None and write.producer is not None:
            producers[write.producer_id] = write.producer
        return Stream(
            write.head,
            self.data + write.data,
            self.ends + tuple(write.ends),
            self.append_ends + tuple(write.ends[-1:]),
            self.times + (write.head.written_at,) * len(write.ends),
            producers,
        )


State = dict[bytes, Stream]
"""The streams by their names."""


class Ledger:
    """What was acknowledged: the streams after each change, by its number."""

    def __init__(self) -> None:
        self.states: list[State] = [{}]
        self.touched: list[frozenset[int]] = [frozenset()]
        """The incarnations that each change was about."""
        self.group = 1
        """The number of the first change of the last group."""

    @property
    def last(self) -> int:
        """The number of the last change."""
        return len(self.states) - 1

    @property
    def state(self) -> State:
        """The streams as they are."""
        return self.states[-1]

    def take(self, change: Change) -> None:
        state = dict(self.state)
        for edit in change:
            name = edit.head.identity.name
            if isinstance(edit, Drop):
                del state[name]
            else:
                before = Stream(edit.head) if edit.created else state[name]
                state[name] = before.after(edit)
        self.states.append(state)
        self.touched.append(frozenset(edit.head.identity.incarnation for edit in change))

    def names(self) -> list[bytes]:
        """Give every name that there ever was."""
        return sorted({name for state in self.states for name in state})

    def versions(self, incarnation: int) -> Iterator[Stream]:
        """Give what a stream was, the newest first."""
        for state in reversed(self.states):
            yield from (stream for stream in state.values() if stream.incarnation == incarnation)

    def forks(self, state: State, incarnation: int) -> list[Stream]:
        """Give the streams that branch off one."""
        return [
            stream
            for stream in state.values()
            if stream.head.identity.fork and stream.head.identity.fork.source_incarnation == incarnation
        ]


def written(
    stream: Stream | None,
    head: Head,
    *messages: bytes,
    producer: tuple[bytes, Producer] | None = None,
    forgotten: tuple[bytes, ...] = (),
) -> Write:
    """Append messages together to a stream, which is new if it is None. `head` has everything but the tail."""
    data = b"".join(messages)
    ends = tuple(accumulate(map(len, messages), initial=head.tail))[1:]
    head = replace(head, tail=head.tail + len(data), written_at=head.written_at + 1)
    producer_id, state = producer or (None, None)
    return Write(head, data, ends, producer_id, state, forgotten, created=stream is None)
