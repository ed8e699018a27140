"""Reads for machines: `until`, `at`, `last`, `skip`, and where each JSON message lies."""

import json
import time
from datetime import UTC, datetime

import pytest

from tests.conformance.extensions.additions.frames import parse_frames
from tests.conformance.extensions.client import query
from tests.conformance.extensions.streams import Namespace, Stream, beyond

pytestmark = pytest.mark.extension("bounded-reads")

WORDS = (b"one", b"two", b"three", b"four", b"five")
REFUSED = [
    "offset=-1&last=1", "offset=-1&at=0", "at=0&last=1", "last=-1", "last=x", "last=", "skip=-1", "skip=1.5", "skip=",
    "at=yesterday", "at=", "at=2020-01-01", "last=1&last=1", "skip=1&skip=1", "at=1&at=1",
]  # fmt: skip


@pytest.fixture
def words(stream: Stream) -> tuple[Stream, list[str]]:
    """A stream of five words, and the offsets before and after each."""
    return stream, [stream.tail, *(stream.append(word) for word in WORDS)]


@pytest.fixture
def timed(stream: Stream) -> tuple[Stream, list[int]]:
    """A stream of five words that came at different times, and these times."""
    for word in WORDS:
        stream.append(word)
        time.sleep(0.003)  # the clock must move on
    times = [message.time_ms for message in parse_frames(stream.read(format="frames").body)]
    assert len(set(times)) == len(WORDS)
    return stream, times


# until


def test_until_is_where_a_read_ends(words: tuple[Stream, list[str]]) -> None:
    """Ours: exclusive end."""
    stream, offsets = words
    page = stream.read(offset=offsets[1], until=offsets[3])
    assert (page.status, page.body, page.next_offset) == (200, b"twothree", offsets[3])
    assert not page.up_to_date
    assert stream.read(until=offsets[2]).body == b"onetwo"


def test_until_the_tail_or_beyond_is_the_tail(words: tuple[Stream, list[str]]) -> None:
    """Ours: beyond the tail means the tail."""
    stream, offsets = words
    for until in (offsets[-1], beyond(offsets[-1], 1000)):
        page = stream.read(offset=offsets[3], until=until)
        assert (page.body, page.next_offset) == (b"fourfive", offsets[-1])


def test_until_the_start_is_nothing(words: tuple[Stream, list[str]]) -> None:
    """Ours: exclusive end."""
    stream, offsets = words
    page = stream.read(offset=offsets[2], until=offsets[2])
    assert (page.status, page.body, page.next_offset) == (200, b"", offsets[2])


@pytest.mark.parametrize("live", ["sse", "long-poll"])
def test_until_does_not_go_with_live(words: tuple[Stream, list[str]], live: str) -> None:
    """Ours: not with live (400)."""
    stream, offsets = words
    assert stream.read(offset=offsets[0], until=offsets[1], live=live).status == 400


def test_until_must_be_a_boundary_at_or_after_the_start(words: tuple[Stream, list[str]]) -> None:
    """Ours: must be a boundary (400), not below the start (400)."""
    stream, offsets = words
    assert stream.read(offset=offsets[0], until=beyond(offsets[1])).status == 400
    assert stream.read(offset=offsets[2], until=offsets[1]).status == 400
    assert stream.read(offset=offsets[2], until="abc").status == 400
    assert stream.client.get(f"{stream.path}?offset=-1&until={offsets[1]}&until={offsets[1]}").status == 400


def test_json_pages_end_at_until(namespace: Namespace) -> None:
    """Ours: exclusive end, in JSON too."""
    stream = namespace.stream("s").create("application/json")
    offsets = [stream.append(b"%d" % number) for number in range(5)]
    assert stream.read(offset=offsets[0], until=offsets[2]).json == [1, 2]
    assert stream.read(offset=offsets[0], until=offsets[0]).json == []


def test_pages_with_different_ends_have_different_tags(words: tuple[Stream, list[str]]) -> None:
    """Ours: a cached page is taken for no other one."""
    stream, offsets = words
    tags = [stream.read(offset=offsets[0], until=until).headers["etag"] for until in (offsets[1], offsets[2])]
    assert tags[0] != tags[1]
    target = query(stream.path, offset=offsets[0], until=offsets[1])
    assert [stream.client.get(target, if_none_match=tag).status for tag in tags] == [304, 200]


# last and skip


@pytest.mark.parametrize("count, start", [(1, 4), (2, 3), (5, 0), (99, 0)])
def test_last_begins_so_many_messages_before_the_end(words: tuple[Stream, list[str]], count: int, start: int) -> None:
    """Ours: the last N retained messages."""
    stream, offsets = words
    page = stream.read(last=count)
    assert (page.body, page.headers["stream-offset"]) == (b"".join(WORDS[start:]), offsets[start])
    assert (page.next_offset, page.headers["cache-control"]) == (offsets[-1], "no-store")


def test_last_with_until_is_what_lies_before_that(words: tuple[Stream, list[str]]) -> None:
    """Ours: the last N messages of what the read may reach, so that one can page backwards."""
    stream, offsets = words
    page = stream.read(last=2, until=offsets[4])
    assert (page.body, page.headers["stream-offset"], page.next_offset) == (b"threefour", offsets[2], offsets[4])
    assert stream.read(last=9, until=offsets[1]).body == b"one"
    assert stream.read(last=1, until=beyond(offsets[-1], 10)).body == b"five"


def test_last_does_not_reach_behind_the_earliest_offset(words: tuple[Stream, list[str]]) -> None:
    """Ours: the last N retained messages."""
    stream, offsets = words
    stream.published(offsets[3])
    assert stream.read(last=4).body == b"fourfive"
    assert stream.head(last=4).headers["stream-offset"] == offsets[3]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 99])
def test_skip_moves_the_start_on(words: tuple[Stream, list[str]], count: int) -> None:
    """Ours: skip=N moves it N messages on (to the tail at most)."""
    stream, offsets = words
    page = stream.read(offset=offsets[1], skip=count)
    assert page.headers["stream-offset"] == offsets[min(1 + count, 5)]
    assert (page.body, page.headers["cache-control"]) == (b"".join(WORDS[1 + count :]), "no-store")


def test_skip_counts_messages_not_appends(namespace: Namespace) -> None:
    """Ours: the offset N messages after a given one."""
    stream = namespace.fresh("application/json", b"[1,2,3]", b"[4,5]")
    assert stream.read(offset="-1", skip=2).json == [3, 4, 5]
    assert stream.read(skip=4).json == [5]
    assert stream.read(last=3).json == [3, 4, 5]


def test_skip_goes_with_last_and_at(words: tuple[Stream, list[str]]) -> None:
    """Ours: start is one of offset, at, last; skip moves it."""
    stream, _ = words
    assert stream.read(last=3, skip=1).body == b"fourfive"
    assert stream.read(at=0, skip=4).body == b"five"


# at


def test_at_begins_with_the_first_message_of_that_time_or_later(timed: tuple[Stream, list[int]]) -> None:
    """Ours: the first message appended at or after it."""
    stream, times = timed
    assert stream.read(at=times[2]).body == b"threefourfive"
    assert stream.read(at=times[2] + 1).body == b"fourfive"
    assert stream.read(at=times[2]).headers["stream-offset"] == f"{6:016d}"


def test_at_takes_dates_too(timed: tuple[Stream, list[int]]) -> None:
    """Ours: RFC 3339 time or milliseconds since the epoch."""
    stream, times = timed
    moment = datetime.fromtimestamp(times[3] / 1000, UTC)
    for written in (moment.isoformat(timespec="milliseconds"), f"{moment:%Y-%m-%dT%H:%M:%S}.{times[3] % 1000:03}Z"):
        assert stream.read(at=written).body == b"fourfive"


def test_at_a_time_to_come_is_the_tail(timed: tuple[Stream, list[int]]) -> None:
    """Ours: the tail if none."""
    stream, times = timed
    page = stream.read(at=times[-1] + 3_600_000)
    assert (page.body, page.headers["stream-offset"]) == (b"", stream.tail)


def test_at_a_time_long_ago_is_the_earliest_offset(timed: tuple[Stream, list[int]]) -> None:
    """Ours: the earliest retained if all."""
    stream, times = timed
    assert stream.read(at=0).body == b"".join(WORDS)
    offset = stream.published(stream.read(at=times[2]).headers["stream-offset"])
    for moment in ("1970-01-01T00:00:00Z", times[0], times[2]):
        assert stream.head(at=moment).headers["stream-offset"] == offset


# Together


def test_malformed_or_conflicting_parameters_are_400(words: tuple[Stream, list[str]]) -> None:
    """Ours: start is one of offset, at, last (together 400)."""
    stream, _ = words
    statuses = {written: stream.client.get(f"{stream.path}?{written}").status for written in REFUSED}
    assert statuses == dict.fromkeys(REFUSED, 400)


def test_head_looks_up_an_offset(words: tuple[Stream, list[str]]) -> None:
    """Ours: HEAD with offset/at/last/skip answers Stream-Offset without data: the cheap lookup."""
    stream, offsets = words
    lookups: list[dict[str, object]] = [
        {"offset": offsets[1], "skip": 2},
        {"last": 2},
        {"at": 0},
        {"offset": offsets[1]},
        {"skip": 1},
    ]
    found = [stream.head(**lookup) for lookup in lookups]
    assert [answer.headers["stream-offset"] for answer in found] == [offsets[index] for index in (3, 3, 0, 1, 1)]
    assert {answer.next_offset for answer in found} == {offsets[-1]}
    assert "stream-offset" not in stream.head().headers


@pytest.mark.parametrize("max_bytes, end", [(1, 1), (5, 1), (6, 2), (10, 2), (11, 3), (1000, 5)])
def test_head_tells_where_a_page_would_end(words: tuple[Stream, list[str]], max_bytes: int, end: int) -> None:
    """Ours: HEAD with max_bytes answers the offset where as many whole messages end, at least one."""
    stream, offsets = words
    assert stream.head(offset=offsets[0], max_bytes=max_bytes).headers["stream-offset"] == offsets[end]
    assert stream.read(offset=offsets[0], max_bytes=max_bytes).next_offset == offsets[end]


def test_head_tells_where_a_page_ends_behind_skipped_messages(words: tuple[Stream, list[str]]) -> None:
    """Ours: skip and last say where the page begins."""
    stream, offsets = words
    assert stream.head(offset=offsets[0], skip=2, max_bytes=9).headers["stream-offset"] == offsets[4]
    assert stream.head(last=1, max_bytes=1).headers["stream-offset"] == offsets[5]
    assert stream.client.request("HEAD", f"{stream.path}?max_bytes=0").status == 400


@pytest.mark.parametrize("written", ["format=frames", "flat=1", "x_last=2", "live=sse", "until=0"])
def test_head_looks_up_nothing_when_it_is_not_asked_to(words: tuple[Stream, list[str]], written: str) -> None:
    """Ours: HEAD without offset, at, last, skip and max_bytes describes the stream, also one that was cut."""
    stream, offsets = words
    stream.published(offsets[2])
    answer = stream.client.request("HEAD", f"{stream.path}?{written}")
    assert (answer.status, answer.next_offset) == (200, offsets[-1])
    assert "stream-offset" not in answer.headers


def test_an_event_stream_may_begin_with_the_last_messages(words: tuple[Stream, list[str]]) -> None:
    """Ours: at, last and skip work with live too."""
    stream, offsets = words
    _, events = stream.client.follow(query(stream.path, last=1, live="sse"))
    assert next(event.data for event in events if event.type == "data") == "five"
    assert json.loads(next(events).data)["streamNextOffset"] == offsets[-1]


def test_a_long_poll_may_begin_with_the_last_messages(words: tuple[Stream, list[str]]) -> None:
    """Ours: at, last and skip work with live too."""
    stream, offsets = words
    assert stream.read(last=2, live="long-poll").body == b"fourfive"
    assert stream.read(offset=offsets[0], skip=4, live="long-poll").body == b"five"


def test_reads_that_begin_where_they_say_have_no_stream_offset_and_are_cached(words: tuple[Stream, list[str]]) -> None:
    """Ours: answers to at/last/skip have Stream-Offset; others are as in the base protocol."""
    stream, offsets = words
    page = stream.read(offset=offsets[0], until=offsets[2])
    assert "stream-offset" not in page.headers
    assert "no-store" not in page.headers["cache-control"]


def test_the_place_of_a_json_message_follows_from_its_position(namespace: Namespace) -> None:
    """Ours: message i begins at S + (its byte position in the body - 1) and ends one byte after its last byte."""
    stream = namespace.stream("s").create("application/json")
    texts = [b'"first"', b'{"second": 2}', b"3.0", b'"\xc3\xa9"']
    ends = [stream.append(text) for text in texts]
    page = stream.read(offset=ends[0])
    for start, end, text in zip(ends, ends[1:], texts[1:], strict=False):
        assert int(start) == int(ends[0]) + page.body.index(text) - 1
        assert int(end) == int(start) + len(text) + 1
        assert stream.read(offset=start, until=end).body == b"[%b]" % text
