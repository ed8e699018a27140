"""Pages: what an answer holds, and where each of its messages ends."""

import json
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given, strategies as st

from everbrook.client.content import Codec
from everbrook.client.errors import InvalidAnswer
from everbrook.client.page import Page, page_of
from everbrook.protocol import format_offset, join_messages, pack_messages

JSON, TEXT, BINARY = "application/json", "text/plain", "image/png"
OURS = {"Stream-Extensions": "buckets, bounded-reads", "Content-Type": JSON}


def page(data: bytes, *, begin: int = 0, end: int, content_type: str = JSON, exact: bool = True) -> Page:
    return Page(format_offset(begin).decode(), format_offset(end).decode(), data, content_type, exact=exact)


def page_of_body(body: bytes, begin: int = 0) -> tuple[Page, list[str]]:
    """A page as a server of ours gives it, with the offsets behind its messages."""
    stored, ends = pack_messages(body, begin)
    return page(join_messages(stored), begin=begin, end=ends[-1]), [format_offset(end).decode() for end in ends]


SPACED = st.lists(st.integers() | st.text() | st.dictionaries(st.text(), st.integers()), min_size=1).flatmap(
    lambda values: st.sampled_from([None, 1, "\t"]).map(lambda indent: json.dumps(values, indent=indent).encode())
)


@given(SPACED, st.integers(0, 10**15))
def test_the_offset_behind_each_message_is_the_one_that_the_server_gave_it(body: bytes, begin: int) -> None:
    given_page, ends = page_of_body(body, begin)
    assert [given_page.offset_after(count) for count in range(1, len(ends) + 1)] == ends
    assert given_page.offset_after(0) == given_page.offset


def test_the_offset_behind_each_message_is_known_from_the_beginning_on() -> None:
    stored, ends = pack_messages(b"[1, 22]", 0)
    beginning = page_of("-1", 200, OURS | {"Stream-Next-Offset": f"{ends[-1]:016d}"}, join_messages(stored), Codec())
    assert [beginning.offset_after(count) for count in range(3)] == ["-1", f"{2:016d}", f"{5:016d}"]


def test_an_event_that_lost_bytes_on_its_way_does_not_tell_where_its_messages_end() -> None:
    """Line ends within an event are LF, whatever they were: the offsets do not add up any more."""
    assert page(b"[[\n1],2]", end=9).offset_after(1) is None


@pytest.mark.parametrize("other", [page(b"[1,2]", end=4, exact=False), page(b"12", end=2, content_type=TEXT)])
def test_where_offsets_say_nothing_of_messages_none_is_given(other: Page) -> None:
    assert other.offset_after(1) is None


def test_no_offset_is_behind_more_messages_than_there_are() -> None:
    assert page(b"[1,2]", end=4).offset_after(3) is None


@pytest.mark.timing
def test_asking_behind_every_message_of_a_large_page_is_quick() -> None:
    large, ends = page_of_body(b"[%b]" % b",".join([b'{"n": 12345}'] * 50_000))
    began = perf_counter()
    assert [large.offset_after(count) for count in range(1, 50_001)] == ends
    assert perf_counter() - began < 5


@pytest.mark.parametrize(
    "data, content_type, values",
    [
        (b'[1,"a"]', JSON, [1, "a"]),
        (b"[]", JSON, []),
        (b"", JSON, []),
        ("é".encode(), TEXT, ["é"]),
        (b"\xff", TEXT, ["\ufffd"]),
        (b"\xff", BINARY, [b"\xff"]),
        (b"", TEXT, []),
    ],
)
def test_values_are_messages_or_the_piece(data: bytes, content_type: str, values: list[Any]) -> None:
    assert Page("0", "1", data, content_type).values == values


@pytest.mark.parametrize(
    "data, content_type, empty", [(b"[]", JSON, True), (b"", JSON, True), (b"[]", TEXT, False), (b"[]", BINARY, False)]
)
def test_two_brackets_are_nothing_in_a_json_stream_only(data: bytes, content_type: str, empty: bool) -> None:  # noqa: FBT001
    assert Page("0", "1", data, content_type).empty is empty


@pytest.mark.parametrize("data, altered", [(b"a\r\nb", False), (b"a\nb", True)])
def test_a_text_whose_line_ends_were_changed_is_noticed(data: bytes, altered: bool) -> None:  # noqa: FBT001
    assert page(data, end=4, content_type=TEXT).altered is altered


def test_an_answer_says_where_it_begins_and_ends() -> None:
    headers = OURS | {"Stream-Next-Offset": "9", "Stream-Offset": "4", "Stream-Cursor": "c", "Stream-Closed": "true"}
    found = page_of("-1", 200, headers, b"[1]", Codec())
    assert (found.offset, found.next_offset, found.cursor, found.closed, found.up_to_date) == (
        "4",
        "9",
        "c",
        True,
        False,
    )


def test_what_is_asked_for_from_now_on_begins_at_the_tail() -> None:
    assert page_of("now", 200, {"Stream-Next-Offset": "7", "Stream-Up-To-Date": "true"}, b"", Codec()).offset == "7"


def test_an_answer_without_an_offset_is_no_page() -> None:
    with pytest.raises(InvalidAnswer, match=r"no Stream-Next-Offset \(status 200\)"):
        page_of("-1", 200, {}, b"<html>", Codec())


def test_offsets_behind_messages_with_lone_surrogates_are_those_of_their_bytes() -> None:
    """Gap G-03."""
    given_page, ends = page_of_body(rb'["\ud83d", "x", {"\ude00":1}]')
    assert [given_page.offset_after(count) for count in (1, 2, 3)] == ends
