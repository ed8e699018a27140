"""Frames: a page of messages as columns."""

from array import array
from itertools import accumulate

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol import Frames
from everbrook.protocol.frames import (
    CONTENT_TYPE,
    HEADER,
    MAGIC,
    Frame,
    InvalidFrames,
    decode_frames,
    encode_frames,
    frames_of,
)
from tests.kit.generated import generated
from tests.kit.views import BYTES, JSON, head_of

offsets = st.integers(0, 10**15)
times = st.integers(0, 2**53)


def frames(first: int, messages: list[tuple[bytes, int]], trailer: bytes = b"") -> Frames:
    ends = list(accumulate((len(message) + len(trailer) for message, _ in messages), initial=first))[1:]
    data = b"".join(message + trailer for message, _ in messages)
    return Frames(first, len(trailer), array("Q", ends), array("Q", [time for _, time in messages]), data)


pages = st.builds(
    frames,
    offsets,
    st.lists(st.tuples(st.binary(max_size=20), times), max_size=8),
    st.sampled_from([b"", b","]),
)


@generated
@given(pages)
def test_a_page_is_read_as_it_was_written(page: Frames) -> None:
    assert decode_frames(encode_frames(page)) == page


@generated
@given(offsets, st.lists(st.tuples(st.binary(max_size=20), times), max_size=8), st.sampled_from([b"", b","]))
def test_each_message_has_its_offsets_its_time_and_its_payload(
    first: int, messages: list[tuple[bytes, int]], trailer: bytes
) -> None:
    """Message i is `data[ends[i-1]-first : ends[i]-first-trailer]`."""
    page = frames(first, messages, trailer)

    assert [(frame.payload, frame.time) for frame in page] == messages
    assert [frame.next_offset for frame in page] == list(page.ends)
    assert [frame.offset for frame in page] == [first, *page.ends][: len(messages)]
    assert len(page) == len(messages)


def test_the_layout_is_columns_of_little_endian_numbers() -> None:
    """Magic, version, trailer, count and first; then ends, times and the stored bytes."""
    page = frames(256, [(b"1", 7), (b"22", 513)], b",")

    assert encode_frames(page) == (
        b"EBF1\x01\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00"
        b"\x00\x01\x00\x00\x00\x00\x00\x00"
        b"\x02\x01\x00\x00\x00\x00\x00\x00\x05\x01\x00\x00\x00\x00\x00\x00"
        b"\x07\x00\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00"
        b"1,22,"
    )
    assert CONTENT_TYPE == b"application/vnd.everbrook.frames"


@pytest.mark.parametrize("content_type, payload", [(BYTES, b"1,"), (JSON, b"1")])
def test_the_comma_behind_a_json_message_is_no_part_of_it(content_type: bytes, payload: bytes) -> None:
    """§9.1: what is stored is the value and a separator."""
    page = frames_of(head_of(content_type).identity, 4, array("Q", [6]), array("Q", [9]), b"1,")

    assert list(page) == [Frame(4, 6, 9, payload)]


@pytest.mark.parametrize("length", [0, HEADER.size - 1, HEADER.size, HEADER.size + 2 * 8, HEADER.size + 2 * 8 + 1])
def test_a_page_that_ends_in_any_of_its_parts_is_refused(length: int) -> None:
    body = encode_frames(frames(0, [(b"12", 7)]))

    assert list(decode_frames(body)) == [Frame(0, 2, 7, b"12")]
    with pytest.raises(InvalidFrames):
        decode_frames(body[:length])


@generated
@given(pages, st.data())
def test_a_page_that_was_cut_off_is_refused(page: Frames, data: st.DataObject) -> None:
    body = encode_frames(page)
    length = data.draw(st.integers(0, len(body) - 1))

    with pytest.raises(InvalidFrames):
        decode_frames(body[:length])


def test_a_page_with_more_than_its_messages_is_refused() -> None:
    with pytest.raises(InvalidFrames, match="cut off"):
        decode_frames(encode_frames(frames(0, [(b"1", 7)])) + b"x")


@pytest.mark.parametrize("magic, version", [(b"EBF2", 1), (MAGIC, 2)])
def test_another_format_is_refused(magic: bytes, version: int) -> None:
    with pytest.raises(InvalidFrames, match="is not a page of frames of version 1"):
        decode_frames(HEADER.pack(magic, version, 0, 0, 0, 0, 0))


def test_a_count_that_a_page_can_not_hold_takes_no_memory() -> None:
    with pytest.raises(InvalidFrames, match="cut off"):
        decode_frames(HEADER.pack(MAGIC, 1, 0, 0, 2**32 - 1, 0, 0) + b"x" * 20)
