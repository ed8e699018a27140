"""Reading: where a read begins and where its page ends."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everbrook.protocol.errors import InvalidOffset
from everbrook.protocol.offset import Sentinel
from everbrook.protocol.reading import Page, locate, page_from
from tests.protocol.generated import generated
from tests.protocol.views import KeptStream, Streams, head_of


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
