"""Snapshots: everything that can be seen of a set of streams, taken from a storage or from the model.

What a stream does not retain is not looked at. What a fork inherits is: it reads it as its own.
"""

from itertools import accumulate, repeat

from msgspec import Struct

from everbrook.engine.lineage import Lineage
from everbrook.protocol import Head, Producer
from everbrook.protocol.errors import StreamDamaged
from everbrook.storage import Storage
from tests.kit.views import KeptStream, Streams


class StreamState(Struct, frozen=True):
    """One stream, byte for byte, from the earliest one on that it retains."""

    head: Head
    producers: dict[bytes, Producer]
    content: bytes
    messages: tuple[int, ...]
    times: tuple[int, ...]
    appends: tuple[int, ...]
    fork_count: int


Snapshot = dict[bytes, StreamState]


def stored_state(storage: Storage, name: bytes) -> StreamState | None:
    """Read a stream out of a storage, through every method that it has."""
    record = storage.load(name)
    if record is None:
        return None
    head, lineage = record.head, _lineage(storage, record.head)
    first, tail = head.kept.earliest, head.tail
    found = lineage.messages(first, tail)
    _check_messages(lineage, [first, *found.ends])
    appends = [first]
    while appends[-1] < tail:
        appends.append(lineage.append_end(appends[-1]))
    content = lineage.read(first, tail) if first < tail else b""
    forks = storage.fork_count(head.identity.incarnation)
    messages, times = tuple(found.ends), tuple(found.times)
    return StreamState(head, dict(record.producers), content, messages, times, tuple(appends[1:]), forks)


def _lineage(storage: Storage, head: Head) -> Lineage:
    """Read a stream as an engine does, from its sources too."""
    fork = head.identity.fork
    if fork is None:
        return Lineage(storage, head.identity, head.tail, None)
    source = storage.load(fork.source)
    if source is None or source.head.identity.incarnation != fork.source_incarnation or source.head.tail < fork.offset:
        raise StreamDamaged(f"{head.identity.name!r} has lost what it inherited from {fork.source!r}")
    return Lineage(storage, head.identity, head.tail, _lineage(storage, source.head))


def _check_messages(lineage: Lineage, boundaries: list[int]) -> None:
    """See that all ways to ask where messages end agree."""
    first, last, count = boundaries[0], boundaries[-1], len(boundaries) - 1
    assert lineage.is_boundary(first), f"what is retained begins inside a message, at {first}"
    walked = list(accumulate(repeat(None, count), lambda at, _: lineage.boundary_after(at), initial=first))
    assert walked == boundaries, f"messages end at {boundaries} and are walked as {walked}"
    assert all(lineage.boundary_at_or_before(after - 1) < after for after in boundaries[1:])
    assert lineage.seek(first, count, last) == last
    assert lineage.seek(last, -count, first) == first
    assert lineage.seek(last, -(count // 2), first) == boundaries[count - count // 2]


def stored_snapshot(storage: Storage, names: tuple[bytes, ...]) -> Snapshot:
    """Read streams out of a storage."""
    found = {name: stored_state(storage, name) for name in names}
    return {name: state for name, state in found.items() if state}


def kept_state(stream: KeptStream) -> StreamState:
    """Take the state of a stream of the model."""
    first = stream.head.kept.earliest
    messages = [(end, time) for end, time in zip(stream.ends, stream.times, strict=True) if end > first]
    return StreamState(
        stream.head,
        dict(stream.producers),
        stream.stored[first:],
        tuple(end for end, _ in messages),
        tuple(time for _, time in messages),
        tuple(end for end in stream.append_ends if end > first),
        stream.fork_count,
    )


def kept_snapshot(streams: Streams) -> Snapshot:
    """Take the state of every stream of the model."""
    return {name: kept_state(stream) for name, stream in streams.kept.items()}


def revived(snapshot: Snapshot, streams: Streams | None = None) -> Streams:
    """Make a model that goes on from a snapshot."""
    streams = streams or Streams()
    streams.kept.update((name, _revived(state)) for name, state in snapshot.items())
    return streams


def _revived(state: StreamState) -> KeptStream:
    """Bring a stream back. What it does not retain was one message, of which nothing is known."""
    first = state.head.kept.earliest
    unknown = [first] if first else []
    return KeptStream(
        state.head,
        touched_at=state.head.written_at,
        fork_count=state.fork_count,
        stored=bytes(first) + state.content,
        ends=[*unknown, *state.messages],
        append_ends=[*unknown, *state.appends],
        times=[0 for _ in unknown] + list(state.times),
        producers=dict(state.producers),
    )
