"""Snapshots: everything that can be seen of a set of streams, taken from a storage or from the model."""

from contextlib import suppress

from msgspec import Struct

from everbrook.protocol.errors import StreamDamaged
from everbrook.protocol.state import Head, Producer
from everbrook.storage.api import Storage
from tests.protocol.views import KeptStream, Streams


class StreamState(Struct, frozen=True):
    """One stream, byte for byte."""

    head: Head
    producers: dict[bytes, Producer]
    own: bytes
    messages: tuple[int, ...]
    appends: tuple[int, ...]
    fork_count: int


Snapshot = dict[bytes, StreamState]


def stored_state(storage: Storage, name: bytes) -> StreamState | None:
    """Read a stream out of a storage, through every method that it has."""
    record = storage.load(name)
    if record is None:
        return None
    head, number = record.head, record.head.identity.incarnation
    messages, appends = [head.identity.first_own_offset], [head.identity.first_own_offset]
    while messages[-1] < head.tail:
        messages.append(storage.boundary_after(number, messages[-1]))
        assert storage.boundary_at_or_before(number, messages[-1]) == messages[-1]
    while appends[-1] < head.tail:
        appends.append(storage.append_end(number, appends[-1]))
    own = storage.read(number, messages[0], head.tail) if messages[0] < head.tail else b""
    forks = storage.fork_count(number)
    return StreamState(head, dict(record.producers), own, tuple(messages[1:]), tuple(appends[1:]), forks)


def stored_snapshot(storage: Storage, names: tuple[bytes, ...]) -> Snapshot:
    """Read streams out of a storage."""
    found = {name: stored_state(storage, name) for name in names}
    return {name: state for name, state in found.items() if state}


def readable_snapshot(storage: Storage, names: tuple[bytes, ...]) -> Snapshot:
    """Read those streams out of a storage of which it does not say that they are damaged."""
    found: Snapshot = {}
    for name in names:
        with suppress(StreamDamaged):
            found.update(stored_snapshot(storage, (name,)))
    return found


def kept_state(stream: KeptStream) -> StreamState:
    """Take the state of a stream of the model."""
    first = stream.head.identity.first_own_offset
    return StreamState(
        stream.head,
        dict(stream.producers),
        stream.stored[first:],
        tuple(end for end in stream.ends if end > first),
        tuple(end for end in stream.append_ends if end > first),
        stream.fork_count,
    )


def kept_snapshot(streams: Streams) -> Snapshot:
    """Take the state of every stream of the model."""
    return {name: kept_state(stream) for name, stream in streams.kept.items()}


def revived(snapshot: Snapshot, streams: Streams | None = None) -> Streams:
    """Make a model that goes on from a snapshot. A fork copies what it inherits, so sources come first."""
    streams = streams or Streams()
    for name in snapshot:
        _revive(streams, snapshot, name)
    return streams


def _revive(streams: Streams, snapshot: Snapshot, name: bytes) -> KeptStream:
    if name in streams.kept:
        return streams.kept[name]
    state = snapshot[name]
    fork = state.head.identity.fork
    stream = KeptStream(state.head)
    if fork:
        stream = _revive(streams, snapshot, fork.source).fork_at(state.head, fork.offset)
    stream.touched_at = state.head.written_at
    stream.fork_count = state.fork_count
    stream.stored += state.own
    stream.ends += state.messages
    stream.append_ends += state.appends
    stream.producers.update(state.producers)
    streams.kept[name] = stream
    return stream
