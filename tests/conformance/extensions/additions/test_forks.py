"""Forks of streams with snapshots: what they inherit and keep."""

import pytest

from tests.conformance.extensions.multipart import parse_bootstrap
from tests.conformance.extensions.streams import Namespace, Stream

pytestmark = pytest.mark.extension("snapshots")


@pytest.fixture
def source(namespace: Namespace) -> tuple[Stream, list[str]]:
    """A stream of four messages, and the offsets after each."""
    stream = namespace.stream("source").create()
    return stream, [stream.append(message) for message in (b"one", b"two", b"three", b"four")]


def fork(namespace: Namespace, source: Stream, offset: str, name: str = "fork") -> Stream:
    forked = namespace.stream(name)
    answer = forked.put(stream_forked_from=source.path, stream_fork_offset=offset)
    assert answer.status == 201, answer
    return forked


def parts(stream: Stream) -> list[bytes]:
    answer = stream.bootstrap()
    return [part.body for part in parse_bootstrap(answer.headers["content-type"], answer.body)]


def test_a_fork_inherits_earliest_offset_and_snapshot(namespace: Namespace, source: tuple[Stream, list[str]]) -> None:
    """Ours: a fork inherits the source's earliest offset and snapshot."""
    stream, offsets = source
    stream.published(offsets[1], b"one and two", content_type="text/csv")
    forked = fork(namespace, stream, offsets[2])
    assert forked.head().headers["stream-snapshot-offset"] == offsets[1]
    assert [forked.read(offset=offset).status for offset in offsets] == [410, 200, 200, 200]
    forked.append(b"own")
    assert parts(forked) == [b"one and two", b"three", b"own"]
    assert forked.snapshot(offsets[1]).headers["content-type"] == "text/csv"


def test_a_fork_keeps_what_it_inherited(namespace: Namespace, source: tuple[Stream, list[str]]) -> None:
    """Ours: what a fork inherited stays readable whatever the source publishes or cuts later."""
    stream, offsets = source
    forked = fork(namespace, stream, offsets[2])
    stream.published(offsets[3], b"all four")
    assert forked.read(offset="-1").body == b"onetwothree"
    assert parts(forked) == [b"", b"one", b"two", b"three"]


def test_a_fork_keeps_the_snapshot_it_inherited(namespace: Namespace, source: tuple[Stream, list[str]]) -> None:
    """Ours: what a fork inherited stays readable whatever the source publishes or cuts later."""
    stream, offsets = source
    stream.published(offsets[0], b"folded one")
    forked = fork(namespace, stream, offsets[2])
    stream.published(offsets[3], b"all four")
    assert parts(forked) == [b"folded one", b"two", b"three"]
    stream.delete()
    assert forked.snapshot(offsets[0]).body == b"folded one"


def test_a_snapshot_of_a_fork_leaves_its_source_alone(namespace: Namespace, source: tuple[Stream, list[str]]) -> None:
    """Ours: retention is each stream's own."""
    stream, offsets = source
    forked = fork(namespace, stream, offsets[2])
    forked.published(offsets[1], b"the fork's")
    assert stream.read(offset="-1").body == b"onetwothreefour"
    assert stream.latest().status == 404
    assert parts(forked) == [b"the fork's", b"three"]


def test_a_fork_inside_a_message_has_a_boundary_there(namespace: Namespace, source: tuple[Stream, list[str]]) -> None:
    """Ours: a sub-offset makes a boundary that is valid on that fork alone, for snapshots and bootstrap too."""
    stream, offsets = source
    forked, anchor = namespace.stream("fork"), {"stream_fork_offset": offsets[1], "stream_fork_sub_offset": "2"}
    inside = forked.put(stream_forked_from=stream.path, **anchor).next_offset
    forked.append(b"own")
    assert parts(forked) == [b"", b"one", b"two", b"th", b"own"]
    assert (stream.publish(inside).status, forked.publish(inside, b"folded").status) == (400, 204)
    assert (parts(forked), forked.read(offset=offsets[1]).status) == ([b"folded", b"own"], 410)


def test_a_fork_of_a_fork_inherits_from_both(namespace: Namespace, source: tuple[Stream, list[str]]) -> None:
    """Ours: what a fork inherited stays readable whatever the sources publish or cut later."""
    stream, offsets = source
    middle = fork(namespace, stream, offsets[2], "middle")
    end = middle.append(b"own")
    last = fork(namespace, middle, end, "last")
    middle.published(end, b"folded by the middle")
    stream.published(offsets[3], b"folded by the source")
    middle.delete()
    stream.delete()
    assert parts(last) == [b"", b"one", b"two", b"three", b"own"]
    assert last.read(offset="-1").body == b"onetwothreeown"


def test_a_fork_of_what_is_gone_is_410(namespace: Namespace, source: tuple[Stream, list[str]]) -> None:
    """Ours: fork offset < source's earliest: 410."""
    stream, offsets = source
    stream.published(offsets[1])
    answer = namespace.stream("fork").put(stream_forked_from=stream.path, stream_fork_offset=offsets[0])
    assert answer.refusal == (410, "offset_gone")


def test_a_fork_before_the_only_snapshot_is_409(namespace: Namespace, source: tuple[Stream, list[str]]) -> None:
    """Ours: if something was cut and the snapshot lies beyond the fork offset: 409 snapshot_beyond_fork."""
    stream, offsets = source
    stream.published(offsets[0])
    stream.published(offsets[2], stream_snapshot_history="keep")
    answer = namespace.stream("fork").put(stream_forked_from=stream.path, stream_fork_offset=offsets[1])
    assert answer.refusal == (409, "snapshot_beyond_fork")


def test_a_fork_before_a_snapshot_of_a_whole_stream_has_none(
    namespace: Namespace, source: tuple[Stream, list[str]]
) -> None:
    """Ours: the snapshot is inherited if its offset <= the fork offset."""
    stream, offsets = source
    stream.published(offsets[2], b"three folded", stream_snapshot_history="keep")
    before = fork(namespace, stream, offsets[1], "before")
    at = fork(namespace, stream, offsets[2], "at")
    assert (before.latest().status, parts(before)) == (404, [b"", b"one", b"two"])
    assert (at.latest().status, parts(at)) == (307, [b"three folded"])
    assert at.read(offset="-1").body == b"onetwothree"
