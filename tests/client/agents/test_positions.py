"""A reader of single messages comes back to exactly where it was, whatever pages the messages come in."""

import json

import pytest
from hypothesis import given, strategies as st

from everbrook.client.page import Page
from everbrook.client.responses import EventId, Resumed, messages_of, parse_event_id
from everbrook.protocol.errors import InvalidOffset

MESSAGES = list(range(12))
cuts = st.lists(st.integers(0, len(MESSAGES)), max_size=5).map(lambda places: [0, *sorted(places), len(MESSAGES)])


def pages(cut: list[int], start: int = 0) -> list[Page]:
    """The messages from `start` on, cut into pages. Offsets are opaque: only page ends have one."""
    places = [place for place in cut if place > start]
    return [
        Page(f"at{begin}", f"at{end}", json.dumps(MESSAGES[begin:end]).encode(), "application/json")
        for begin, end in zip([start, *places], places, strict=False)
        if begin < end
    ]


@given(first=cuts, second=cuts, taken=st.integers(1, len(MESSAGES)))
def test_what_was_taken_and_what_comes_later_is_everything_once(
    first: list[int], second: list[int], taken: int
) -> None:
    resumed = Resumed(EventId("at0"))
    had = [item for page in pages(first) for item in resumed.take(page)][:taken]
    back = parse_event_id(str(had[-1][0]))
    rest = Resumed(back)
    later = [item for page in pages(second, int(back.offset[2:])) for item in rest.take(page)]
    assert [int(message) for _, message in had + later] == MESSAGES


@pytest.mark.parametrize("text", ["0000000000000042", "-1", "now", "42~3", "42~end", "abc_def", "42@6a1c", "-1@6a1c~3"])
def test_a_position_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_event_id(text)) == text


@pytest.mark.parametrize(
    "text", ["", "~3", "1~", "1~x", "1~2~3", "1~ended", "~end", "a b", "a,b", "a/b", "1~-1", "x" * 300]
)
@pytest.mark.parametrize("incarnation", ["", "@", "@a@b", "@a~2@a"])
def test_what_is_no_position_is_refused(text: str, incarnation: str) -> None:
    with pytest.raises(InvalidOffset):
        parse_event_id(text + incarnation)


def test_messages_come_byte_for_byte() -> None:
    page = Page("a", "b", b'[{"n":1e2 , "n":1},"x"]', "application/json")
    assert messages_of(page) == [b'{"n":1e2 , "n":1}', b'"x"']


@pytest.mark.parametrize("content_type, message", [("text/plain", b"hi"), ("image/png", b"aGk=")])
def test_a_page_of_another_kind_is_one_message(content_type: str, message: bytes) -> None:
    assert messages_of(Page("a", "b", b"hi", content_type)) == [message]


def test_messages_with_lone_surrogates_are_given_byte_for_byte() -> None:
    """Gap G-03."""
    data = rb'["\ud83d", {"a":"\ude00"}]'
    assert messages_of(Page("-1", "1", data, "application/json")) == [rb'"\ud83d"', rb'{"a":"\ude00"}']
