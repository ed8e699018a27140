"""Reading: where a read begins and where its page ends."""

from itertools import accumulate

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from everbrook.protocol import Append, Kept, Sentinel
from everbrook.protocol.errors import InvalidOffset, InvalidQuery, OffsetGone
from everbrook.protocol.query import parse_lookup, parse_read_query
from everbrook.protocol.read import Page, begin, end_of_read, locate, look_up, page_from, require_kept
from tests.kit.generated import generated
from tests.kit.views import NOW, TEXT, KeptStream, Streams, head_of


def stream(*lengths: int) -> KeptStream:
    return Streams().hold(b"s", *(b"x" * length for length in lengths))


@pytest.mark.parametrize(
    "offset, position",
    [
        (Sentinel.BEGINNING, 0),
        (Sentinel.NOW, 8),
        (0, 0),
        (3, 3),
        (8, 8),
        (9, 8),
        (10**15, 8),
    ],
)
def test_a_read_begins_at_a_boundary_or_at_the_tail(offset: int | Sentinel, position: int) -> None:
    """§5.6, §8; past the tail is the tail (gap G-09)."""
    kept = stream(3, 5)

    assert locate(kept.head, kept, offset) == position


@pytest.mark.parametrize("offset", [1, 2, 4, 7])
def test_an_offset_inside_a_message_is_refused(offset: int) -> None:
    """Better than the reference; gap G-08."""
    kept = stream(3, 5)

    with pytest.raises(InvalidOffset, match=f"offset {offset:016d} lies inside a message"):
        locate(kept.head, kept, offset)


@pytest.mark.parametrize(
    "max_bytes, end",
    [(1, 3), (3, 3), (4, 3), (7, 3), (8, 8), (9, 8), (14, 8), (15, 15), (1000, 15)],
)
def test_a_page_holds_whole_messages_up_to_its_size_but_one_at_least(max_bytes: int, end: int) -> None:
    """Better than the reference: bounded pages aligned to messages."""
    kept = stream(3, 5, 7)

    assert page_from(kept.head, kept, 0, max_bytes).end == end


@generated
@given(st.lists(st.integers(1, 9), max_size=12), st.integers(1, 30))
def test_pages_tile_the_stream_and_only_the_last_is_up_to_date(lengths: list[int], max_bytes: int) -> None:
    """§5.6: following the next offset reads everything once; `Stream-Up-To-Date` is on the last page alone."""
    kept = stream(*lengths)
    pages = [page_from(kept.head, kept, 0, max_bytes)]
    while not pages[-1].up_to_date:
        pages.append(page_from(kept.head, kept, pages[-1].end, max_bytes))

    boundaries = [0, *accumulate(lengths)]
    assert [page.start for page in pages] == [0, *(page.end for page in pages[:-1])]
    for page in pages:
        held = boundaries.index(page.end) - boundaries.index(page.start)
        assert page.end - page.start <= max_bytes or held == 1
        following = boundaries[boundaries.index(page.end) + 1 :][:1]
        assert all(end - page.start > max_bytes for end in following)


def test_a_page_at_the_tail_is_empty_and_up_to_date() -> None:
    """§5.6."""
    kept = stream(3)

    page = page_from(kept.head, kept, 3, 1)
    assert (page.start, page.end, page.up_to_date, page.final) == (3, 3, True, False)


@pytest.mark.parametrize("end, final", [(3, False), (5, True)])
def test_only_the_end_of_a_closed_stream_is_final(end: int, final: object) -> None:
    """§5.6: `Stream-Closed` is not on partial data."""
    assert Page(head_of(tail=5, closed=True), 0, end).final is final
    assert not Page(head_of(tail=5), 0, end).final


# What was cut


def cut_stream(earliest: int) -> KeptStream:
    """Messages that end at 3, 8 and 10, a second after each other, of which those before an offset are cut."""
    streams = Streams()
    streams.hold(b"s")
    for place, length in enumerate((3, 5, 2)):
        streams.run(Append(b"s", NOW + place * 1000, TEXT, b"x" * length))
    return streams.publish(b"s", earliest)


@pytest.mark.parametrize("offset", [Sentinel.BEGINNING, 0, 3, 5])
def test_what_was_cut_is_gone(offset: int | Sentinel) -> None:
    """002 §2.2: 410, also for `-1`; a bootstrap tells where to go on."""
    kept = cut_stream(8)

    with pytest.raises(OffsetGone, match="messages before 0000000000000008 are no longer retained") as refusal:
        locate(kept.head, kept, offset)
    assert refusal.value.headers == (
        (b"Stream-Earliest-Offset", b"0000000000000008"),
        (b"Stream-Snapshot-Offset", b"0000000000000008"),
    )


@pytest.mark.parametrize("offset, position", [(8, 8), (10, 10), (99, 10), (Sentinel.NOW, 10)])
def test_what_follows_the_cut_is_read_as_before(offset: int | Sentinel, position: int) -> None:
    """002 §2.2."""
    kept = cut_stream(8)

    assert locate(kept.head, kept, offset) == position


def test_a_snapshot_of_nothing_cuts_nothing() -> None:
    """002 §2.1: `-1` counts as 0."""
    kept = cut_stream(0)

    assert locate(kept.head, kept, Sentinel.BEGINNING) == 0


def test_a_refusal_names_the_snapshot_only_if_there_is_one() -> None:
    """002 §2.4: its absence says that there is none."""
    head = replace(head_of(tail=10), kept=Kept(8))

    with pytest.raises(OffsetGone) as refusal:
        require_kept(head, 7)
    assert refusal.value.headers == ((b"Stream-Earliest-Offset", b"0000000000000008"),)
    require_kept(head, 8)


# Reads for machines


@pytest.mark.parametrize(
    "query, start",
    [
        (b"last=0", 10),
        (b"last=1", 8),
        (b"last=2", 3),
        (b"last=3", 3),
        (b"last=99", 3),
        (b"at=0", 3),
        (b"at=%d" % NOW, 3),
        (b"at=%d" % (NOW + 1000), 3),
        (b"at=%d" % (NOW + 1001), 8),
        (b"at=%d" % (NOW + 2000), 8),
        (b"at=%d" % (NOW + 2001), 10),
        (b"offset=0000000000000003&skip=1", 8),
        (b"offset=0000000000000003&skip=2", 10),
        (b"offset=0000000000000003&skip=99", 10),
        (b"offset=now&skip=1", 10),
        (b"offset=0000000000000099&skip=1", 10),
        (b"last=2&skip=1", 8),
        (b"last=0&skip=1", 10),
        (b"at=0&skip=2", 10),
    ],
)
def test_a_read_begins_at_a_time_or_a_number_of_messages(query: bytes, start: int) -> None:
    """Ours: within what is retained."""
    kept = cut_stream(3)

    assert begin(kept.head, kept, parse_read_query(query)) == start


@pytest.mark.parametrize(
    "query, offset",
    [
        (b"offset=0000000000000003&skip=1", 8),
        (b"offset=0000000000000003&max_bytes=1", 8),
        (b"offset=0000000000000003&max_bytes=6", 8),
        (b"offset=0000000000000003&max_bytes=7", 10),
        (b"last=1&max_bytes=1", 10),
    ],
)
def test_a_lookup_gives_where_a_read_begins_or_where_its_page_ends(query: bytes, offset: int) -> None:
    kept = cut_stream(3)
    lookup = parse_lookup(query)
    assert lookup is not None
    assert look_up(kept.head, kept, lookup) == offset


@pytest.mark.parametrize("query", [b"skip=1", b"offset=0000000000000000&skip=1"])
def test_skipping_does_not_lead_out_of_what_was_cut(query: bytes) -> None:
    """002 §2.2: 410 for what the read would begin at."""
    kept = cut_stream(3)

    with pytest.raises(OffsetGone):
        begin(kept.head, kept, parse_read_query(query))


@pytest.mark.parametrize(
    "start, until, end", [(0, 0, 0), (0, 3, 3), (3, 8, 8), (3, 3, 3), (0, 10, 10), (3, 99, 10), (10, 99, 10)]
)
def test_a_read_ends_at_a_boundary_or_at_the_tail(start: int, until: int, end: int) -> None:
    kept = cut_stream(0)

    assert end_of_read(kept.head, kept, start, until) == end


def test_a_read_does_not_end_before_it_begins() -> None:
    kept = cut_stream(0)

    with pytest.raises(InvalidQuery, match="begins at, 0000000000000008"):
        end_of_read(kept.head, kept, 8, 3)


def test_a_read_does_not_end_inside_a_message() -> None:
    kept = cut_stream(0)

    with pytest.raises(InvalidOffset, match="until 0000000000000009 lies inside a message"):
        end_of_read(kept.head, kept, 3, 9)


@generated
@given(st.lists(st.integers(1, 9), max_size=12), st.integers(1, 30), st.data())
def test_pages_up_to_an_end_tile_what_lies_before_it(lengths: list[int], max_bytes: int, data: st.DataObject) -> None:
    kept = stream(*lengths)
    until = data.draw(st.sampled_from([0, *accumulate(lengths)]))
    pages = [page_from(kept.head, kept, 0, max_bytes, until)]
    while pages[-1].end < until:
        pages.append(page_from(kept.head, kept, pages[-1].end, max_bytes, until))

    assert pages[-1].end == until
    assert [page.start for page in pages] == [0, *(page.end for page in pages[:-1])]
    assert pages[:-1] == [page_from(kept.head, kept, page.start, max_bytes) for page in pages[:-1]]
