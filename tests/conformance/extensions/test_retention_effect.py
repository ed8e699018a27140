"""What publishing a snapshot does to older offsets (002 §2.2, Retention Effect; §3.4)."""

import pytest

from tests.conformance.extensions.client import query
from tests.conformance.extensions.multipart import parse_bootstrap
from tests.conformance.extensions.streams import Namespace, Stream, beyond

READS = [
    pytest.param({}, id="catch-up"),
    pytest.param({"live": "long-poll"}, id="long-poll"),
    pytest.param({"live": "sse"}, id="sse"),
]


@pytest.fixture
def cut(stream: Stream) -> tuple[Stream, list[str]]:
    """A stream of four messages with a snapshot of the first two, and the offsets after each message."""
    offsets = [stream.append(message) for message in (b"one", b"two", b"three", b"four")]
    stream.published(offsets[1], b"one and two")
    return stream, offsets


def test_the_snapshot_offset_is_the_earliest_retained_offset(cut: tuple[Stream, list[str]]) -> None:
    """002 §2.2: the server MUST treat snapshot_offset as the new earliest retained offset."""
    stream, offsets = cut
    page = stream.read(offset=offsets[1])
    assert (page.status, page.body, page.next_offset) == (200, b"threefour", offsets[3])
    assert stream.read(offset=offsets[2]).body == b"four"


@pytest.mark.parametrize("mode", READS)
def test_older_offsets_are_410(cut: tuple[Stream, list[str]], mode: dict[str, str]) -> None:
    """002 §2.2: for any offset less than snapshot_offset, the server MUST return 410 Gone."""
    stream, offsets = cut
    assert stream.read(offset=offsets[0], **mode).status == 410


@pytest.mark.parametrize("mode", READS)
def test_the_beginning_is_410(cut: tuple[Stream, list[str]], mode: dict[str, str]) -> None:
    """002 §2.2: for any offset less than snapshot_offset (including -1), the server MUST return 410 Gone."""
    stream, _ = cut
    assert stream.read(offset="-1", **mode).status == 410


def test_a_read_without_an_offset_is_410(cut: tuple[Stream, list[str]]) -> None:
    """002 §2.2: including -1, for which a missing offset stands in the base protocol."""
    stream, _ = cut
    assert stream.read().status == 410


def test_any_older_offset_is_410_a_boundary_or_not(cut: tuple[Stream, list[str]]) -> None:
    """002 §2.2: for any offset less than snapshot_offset, the server MUST return 410 Gone."""
    stream, offsets = cut
    older = [beyond(offsets[1], -by) for by in range(1, int(offsets[1]) + 1)]
    assert [stream.read(offset=offset).status for offset in older] == [410] * len(b"onetwo")


def test_a_second_snapshot_moves_the_earliest_offset_on(cut: tuple[Stream, list[str]]) -> None:
    """002 §2.2: when a new snapshot is published, the server MUST treat snapshot_offset as the new earliest offset."""
    stream, offsets = cut
    stream.published(offsets[2], b"three of them")
    assert [stream.read(offset=offset).status for offset in offsets] == [410, 410, 200, 200]


def test_readers_of_retained_offsets_notice_nothing(cut: tuple[Stream, list[str]]) -> None:
    """002 §2.2: only offsets less than snapshot_offset are gone."""
    stream, offsets = cut
    assert stream.read(offset="now").next_offset == offsets[3]
    end = stream.append(b"five")
    page = stream.read(offset=offsets[3], live="long-poll")
    assert (page.body, page.next_offset) == (b"five", end)


def test_a_follower_at_a_retained_offset_goes_on(cut: tuple[Stream, list[str]]) -> None:
    """002 §2.2: only offsets less than snapshot_offset are gone."""
    stream, offsets = cut
    _, events = stream.client.follow(query(stream.path, offset=offsets[2], live="sse"))
    assert next(event.data for event in events if event.type == "data") == "four"
    stream.published(offsets[3], b"all four")
    stream.append(b"five")
    assert next(event.data for event in events if event.type == "data") == "five"


def test_json_messages_that_remain_are_an_array(namespace: Namespace) -> None:
    """002 §2.2: the server MUST treat snapshot_offset as the new earliest retained offset."""
    stream = namespace.fresh("application/json", b"1")
    offset = stream.published(stream.append(b"2"), b"sum: 3")
    stream.append(b"[3,4]")
    assert stream.read(offset=offset).json == [3, 4]


# What is promised for such streams (§3.4)


def test_a_read_never_returns_the_bytes_of_a_snapshot(cut: tuple[Stream, list[str]]) -> None:
    """002 §3.4: regular GET {stream_url}?offset=... MUST NOT return snapshot bytes."""
    stream, offsets = cut
    for parameters in [{"offset": offset} for offset in [*offsets, "-1", "now"]]:
        assert b"one and two" not in stream.read(**parameters).body


def test_a_reader_that_is_told_410_recovers_by_bootstrap(cut: tuple[Stream, list[str]]) -> None:
    """002 §3.4: when a server returns 410 Gone, clients call /bootstrap and continue from its Stream-Next-Offset."""
    stream, offsets = cut
    assert stream.read(offset=offsets[0]).status == 410
    answer = stream.bootstrap()
    parts = parse_bootstrap(answer.headers["content-type"], answer.body)
    assert [part.body for part in parts] == [b"one and two", b"three", b"four"]
    stream.append(b"five")
    assert stream.read(offset=answer.next_offset).body == b"five"


def test_bootstrap_covers_the_earliest_offset_once_anything_is_410(cut: tuple[Stream, list[str]]) -> None:
    """002 §3.4: the server MUST ensure /bootstrap can provide a snapshot covering that earliest retained offset."""
    stream, offsets = cut
    covered = stream.bootstrap().headers["stream-snapshot-offset"]
    assert stream.read(offset=covered).status == 200
    assert [offset for offset in offsets if stream.read(offset=offset).status == 410] == [
        offset for offset in offsets if offset < covered
    ]
