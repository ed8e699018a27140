"""Server-Sent Events: encoder and decoder are inverses, and no payload can forge an event."""

import re
from binascii import Error as Base64Error
from collections.abc import Iterable

import pytest
from hypothesis import example, given, strategies as st

from everbrook.protocol import KEEP_ALIVE, Decoder, Event, encode_base64, encode_event
from everbrook.protocol.sse import decode_base64
from tests.kit.generated import chunk_sizes, cut, generated, payloads

LINE_END = re.compile(rb"\r\n|\r|\n")

events = st.builds(
    Event,
    st.sampled_from([b"data", b"control", b"message"]),
    payloads,
    st.integers(0, 10**16 - 1).map(b"%016d".__mod__),
)
wires = st.lists(
    st.sampled_from([b"data:x", b"data: y", b"data", b"event: e", b"id:7", b":c", b"retry: 1", b"\r", b"\n", b"\r\n"]),
    max_size=20,
).map(b"".join)


def decode(chunks: Iterable[bytes]) -> list[Event]:
    decoder = Decoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def as_received(event: Event) -> Event:
    """What SSE can carry of an event: line ends, not which ones (gap G-01)."""
    return Event(event.type, LINE_END.sub(b"\n", event.data), event.id)


def interpret(wire: bytes) -> list[Event]:
    """Read an event stream as the HTML standard words it, all of it at once."""
    found, data, kind, last_id = [], b"", b"", None
    for line in LINE_END.split(wire.removeprefix(b"\xef\xbb\xbf"))[:-1]:
        name, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if not line:
            found += [Event(kind or b"message", data[:-1], last_id)] if data else []
            data, kind = b"", b""
        data += value + b"\n" if name == b"data" else b""
        kind = value if name == b"event" else kind
        last_id = value if name == b"id" and b"\0" not in value else last_id
    return found


@generated
@given(st.lists(events, max_size=4), chunk_sizes)
def test_what_is_encoded_is_decoded_however_it_is_cut(sent: list[Event], sizes: list[int]) -> None:
    """§5.8."""
    wire = b"".join(map(encode_event, sent))

    assert decode(cut(wire, sizes)) == [as_received(event) for event in sent]


@generated
@given(st.lists(events, max_size=4), chunk_sizes, st.sampled_from([b"\r", b"\r\n"]))
def test_lines_may_end_in_any_of_three_ways(sent: list[Event], sizes: list[int], line_end: bytes) -> None:
    wire = b"".join(map(encode_event, sent)).replace(b"\n", line_end)

    assert decode(cut(wire, sizes)) == [as_received(event) for event in sent]


@generated
@given(wires, chunk_sizes)
@example(b"data:x\r\n\n", [1])
@example(b"\xef\xbb\xbfdata:x\n\n", [1])
@example(b"data:\xef\xbb\xbfx\n\n\xef\xbb\xbfdata:y\n\n", [3])
@example(b"id:\0\nid:1\0\ndata\n\nid\ndata:\n\n", [2])
def test_the_decoder_reads_what_the_standard_says_however_it_is_cut(wire: bytes, sizes: list[int]) -> None:
    assert decode(cut(wire, sizes)) == interpret(wire)


def test_an_empty_chunk_changes_nothing() -> None:
    assert decode([b"data:x\r", b"", b"\n", b"", b"data:y\n", b"", b"\n"]) == [Event(b"message", b"x\ny")]


@generated
@given(events)
def test_no_payload_ends_its_event_or_begins_a_line_of_its_own(event: Event) -> None:
    """§12.3: every line is one that the encoder wrote, and the one blank line is the last."""
    *lines, blank, rest = encode_event(event).split(b"\n")

    assert (blank, rest) == (b"", b"")
    assert lines[0] == b"event: " + event.type
    assert all(line.startswith(b"data:") for line in lines[1:-1])
    assert lines[-1] == b"id: " + (event.id or b"")
    assert not any(b"\r" in line for line in lines)


@pytest.mark.parametrize("line_end", [b"\n", b"\r", b"\r\n"])
def test_a_payload_that_looks_like_events_stays_one_payload(line_end: bytes) -> None:
    """§12.3."""
    forged = line_end.join([b"x", b"", b"event: control", b"data: {}", b"", b""])

    assert decode([encode_event(Event(b"data", forged))]) == [Event(b"data", forged.replace(line_end, b"\n"))]


def test_an_event_is_written_type_first_with_its_data_on_the_next_line() -> None:
    """§5.8; readers match `event: control` directly followed by `data:{`."""
    assert encode_event(Event(b"control", b'{"a":1}', b"7")) == b'event: control\ndata:{"a":1}\nid: 7\n\n'


def test_an_event_without_an_id_has_no_id_line() -> None:
    assert encode_event(Event(b"data", b"")) == b"event: data\ndata:\n\n"


def test_a_space_is_added_only_before_a_space_of_the_payload() -> None:
    assert encode_event(Event(b"data", b"a\n b")) == b"event: data\ndata:a\ndata:  b\n\n"


def test_a_keep_alive_is_a_comment_and_no_event() -> None:
    assert KEEP_ALIVE.startswith(b":")
    assert decode([KEEP_ALIVE, KEEP_ALIVE]) == []


def test_a_keep_alive_inside_the_stream_disturbs_no_event() -> None:
    event = Event(b"data", b"x", b"1")

    assert decode([encode_event(event), KEEP_ALIVE, encode_event(event)]) == [event, event]


def test_an_event_cut_off_before_its_blank_line_is_never_given() -> None:
    """A reader that lost its connection in mid-event reads it again whole."""
    assert decode([b"event: data\ndata:half\n"]) == []


def test_an_id_stays_until_the_next_one() -> None:
    """As the HTML standard has it: it is where a reader stands."""
    assert [event.id for event in decode([b"data:a\n\nid:1\ndata:b\n\ndata:c\n\n"])] == [None, b"1", b"1"]


@generated
@given(st.binary(max_size=100), st.integers(1, 20), st.sampled_from([b"\n", b"\r\n"]))
def test_base64_is_read_whatever_lines_it_was_cut_into(data: bytes, width: int, line_end: bytes) -> None:
    """§5.8: line ends are removed before decoding."""
    text = encode_base64(data)

    assert decode_base64(line_end.join(cut(text, [width]))) == data


@generated
@given(st.binary(max_size=100))
def test_base64_is_whole_and_of_the_standard_alphabet(data: bytes) -> None:
    """§5.8: a multiple of four characters, or empty."""
    assert re.fullmatch(rb"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", encode_base64(data))


@pytest.mark.parametrize("text", [b"QQ", b"Q*==", b"QQ= ="])
def test_broken_base64_is_an_error(text: bytes) -> None:
    with pytest.raises(Base64Error):
        decode_base64(text)
