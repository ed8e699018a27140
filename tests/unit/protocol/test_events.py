"""The events of a live read."""

import base64
import json
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol import Decoder, Event, Head
from everbrook.protocol.events import encode_page
from everbrook.protocol.messages import pack
from everbrook.protocol.read import Page
from tests.kit.views import BYTES, JSON, TEXT, head_of


def events(page: Page, stored: bytes, cursor: int = 9) -> list[Event]:
    return Decoder().feed(encode_page(page, stored, cursor))


def control(page: Page, cursor: int = 9) -> object:
    return json.loads(events(page, b"", cursor)[-1].data)


def whole(head: Head) -> Page:
    return Page(head, 0, head.tail)


def test_a_page_is_its_data_and_then_where_it_ends() -> None:
    """§5.8: a control event follows every data event."""
    assert [event.type for event in events(whole(head_of(tail=5)), b"hello")] == [b"data", b"control"]


def test_each_message_of_text_or_bytes_is_an_event_with_its_position() -> None:
    """§5.8: whoever reads it learns where one message ends and the next begins."""
    page, ends = whole(head_of(TEXT, tail=9)), (3, 5, 9)
    told = Decoder().feed(encode_page(page, b"one\r\nfour", 7, ends))
    assert [event.data for event in told[::2]] == [b"one", b"\n", b"four"]
    assert [int(event.id or b"") for event in told] == [3, 3, 5, 5, 9, 9]
    assert [json.loads(event.data) for event in told[1::2]] == [
        {"streamNextOffset": f"{3:016d}", "streamCursor": "7"},
        {"streamNextOffset": f"{5:016d}", "streamCursor": "7", "dataAltered": True},
        {"streamNextOffset": f"{9:016d}", "streamCursor": "7", "upToDate": True},
    ]


def test_only_the_last_control_event_of_a_closed_stream_says_so() -> None:
    page = whole(head_of(BYTES, tail=3, closed=True))
    told = Decoder().feed(encode_page(page, b"abc", 7, (1, 2, 3)))
    assert [json.loads(event.data).get("streamClosed", False) for event in told[1::2]] == [False, False, True]


@given(messages=st.lists(st.binary(min_size=1, max_size=6), min_size=1), text=st.booleans(), start=st.integers(0, 99))
def test_messages_are_written_as_each_would_be_alone(messages: list[bytes], *, text: bool, start: int) -> None:
    """Positions begin anywhere, and messages hold anything, format characters included."""
    ends = [start + end for end in accumulate(map(len, messages))]
    head = head_of(TEXT if text else BYTES, tail=ends[-1] + 1)
    together = encode_page(Page(head, start, ends[-1]), b"".join(messages), 9, ends)
    pages = [Page(head, *bounds) for bounds in pairwise([start, *ends])]
    assert together == b"".join(encode_page(*each, 9) for each in zip(pages, messages, strict=True))


def test_an_empty_page_is_a_control_event_alone() -> None:
    """§8: a reader at the tail learns at once where it stands."""
    assert [event.type for event in events(Page(head_of(tail=5), 5, 5), b"")] == [b"control"]


@pytest.mark.parametrize(
    "head, end, fields",
    [
        (head_of(tail=5), 3, {"streamNextOffset": "0000000000000003", "streamCursor": "9"}),
        (head_of(tail=5), 5, {"streamNextOffset": "0000000000000005", "streamCursor": "9", "upToDate": True}),
        (head_of(tail=5, closed=True), 3, {"streamNextOffset": "0000000000000003", "streamCursor": "9"}),
        (
            head_of(tail=5, closed=True),
            5,
            {"streamNextOffset": "0000000000000005", "upToDate": True, "streamClosed": True},
        ),
    ],
)
def test_a_control_event_says_where_the_reader_stands(head: Head, end: int, fields: dict[str, object]) -> None:
    """§5.8: a flag is there only when it is true; a closed stream needs no cursor."""
    assert control(Page(head, 0, end)) == fields


@pytest.mark.parametrize(
    "content_type, stored, altered",
    [
        (TEXT, b"10%\r20%", True),
        (TEXT, b"a\r\nb", True),
        (TEXT, b"a\nb", False),
        (BYTES, b"a\rb", False),
        (JSON, b"[\r1],", False),
    ],
)
def test_a_control_event_says_that_carriage_returns_did_not_survive(
    content_type: bytes, stored: bytes, *, altered: bool
) -> None:
    head = head_of(content_type, tail=len(stored))
    told = json.loads(events(whole(head), stored)[-1].data)
    assert told.get("dataAltered", False) is altered


def test_a_control_event_stands_on_one_line_right_after_its_type() -> None:
    """§5.8; readers match `event: control` directly followed by `data:{`."""
    written = encode_page(Page(head_of(tail=5), 5, 5), b"", 9)

    assert written.startswith(b'event: control\ndata:{"streamNextOffset":"0000000000000005",')


def test_both_events_carry_the_offset_after_the_page_as_their_id() -> None:
    """A browser that reconnects sends it as Last-Event-ID."""
    assert {event.id for event in events(whole(head_of(tail=5)), b"hello")} == {b"0000000000000005"}


def test_text_travels_as_it_is() -> None:
    """§5.8."""
    assert events(whole(head_of(TEXT, tail=6)), b"a\nb c\n")[0] == Event(b"data", b"a\nb c\n", b"0000000000000006")


def test_json_travels_as_an_array_that_parses_by_itself() -> None:
    """§5.8, §9.1.5."""
    head = head_of(JSON)
    stored, ends = pack(head.identity, b'[{"a":\n1},\r[2]]', 0)

    data = events(Page(head, 0, ends[-1]), stored)[0].data
    assert json.loads(data) == [{"a": 1}, [2]]


def test_other_bytes_travel_in_base64() -> None:
    """§5.8."""
    assert base64.b64decode(events(whole(head_of(BYTES, tail=3)), b"\xff\n\0")[0].data) == b"\xff\n\0"


def test_json_with_parameters_or_capitals_is_still_text() -> None:
    """§5.8: decided by the media type, not by how it was written."""
    head = head_of(JSON, tail=2)

    assert events(whole(head), b"1,")[0].data == b"[1]"
