"""Moving the earliest retained offset without a new snapshot: PUT …/retention/{offset}."""

import pytest

from tests.conformance.extensions.streams import Namespace, Stream, beyond

pytestmark = pytest.mark.extension("retention")


@pytest.fixture
def kept(stream: Stream) -> tuple[Stream, list[str]]:
    """A stream with a snapshot of its first three messages, all of which are still there."""
    offsets = [stream.append(message) for message in (b"one", b"two", b"three", b"four")]
    stream.published(offsets[2], b"folded", stream_snapshot_history="keep")
    return stream, offsets


def test_retention_moves_to_the_offset(kept: tuple[Stream, list[str]]) -> None:
    """Ours: earliest = offset. 204."""
    stream, offsets = kept
    assert stream.retain(offsets[1]).status == 204
    assert [stream.read(offset=offset).status for offset in ("-1", *offsets)] == [410, 410, 200, 200, 200]
    assert stream.read(offset=offsets[1]).body == b"threefour"
    assert stream.head().headers["stream-earliest-offset"] == offsets[1]


def test_retention_may_reach_the_snapshot(kept: tuple[Stream, list[str]]) -> None:
    """Ours: never past the latest snapshot."""
    stream, offsets = kept
    assert stream.retain(offsets[2]).status == 204
    assert stream.retain(offsets[3]).refusal == (409, "retention_beyond_snapshot")
    assert stream.read(offset=offsets[2]).body == b"four"


def test_retention_without_a_snapshot_is_409(stream: Stream) -> None:
    """Ours: 409 retention_beyond_snapshot without one."""
    assert stream.retain(stream.append(b"one")).refusal == (409, "retention_beyond_snapshot")
    assert stream.read(offset="-1").status == 200


def test_retention_does_not_move_back(kept: tuple[Stream, list[str]]) -> None:
    """Ours: 410 below the earliest; equal is 204."""
    stream, offsets = kept
    assert [stream.retain(offset).status for offset in (offsets[1], offsets[1], offsets[0])] == [204, 204, 410]


@pytest.mark.parametrize("offset", ["abc", "-1", "now", "1", "%zz"])
def test_retention_at_something_that_is_no_offset_is_400(kept: tuple[Stream, list[str]], offset: str) -> None:
    """Ours: 400 malformed."""
    assert kept[0].retain(offset).status == 400


def test_retention_inside_a_message_is_400(kept: tuple[Stream, list[str]]) -> None:
    """Ours: 400 not a boundary."""
    stream, offsets = kept
    assert stream.retain(beyond(offsets[0], -1)).status == 400


def test_retention_of_a_missing_stream_is_404(namespace: Namespace, stream: Stream) -> None:
    """Ours: 404."""
    assert namespace.stream("missing").retain(stream.tail).status == 404


def test_bootstrap_stays_whole(kept: tuple[Stream, list[str]]) -> None:
    """Ours: no cut passes the latest snapshot."""
    stream, offsets = kept
    before = stream.bootstrap()
    stream.retain(offsets[2])
    after = stream.bootstrap()
    assert before.headers["stream-snapshot-offset"] == after.headers["stream-snapshot-offset"] == offsets[2]
    assert stream.delete_snapshot(offsets[2]).refusal == (409, "snapshot_needed")
