"""Sub-offsets: forks that branch off inside the append that follows their anchor."""

import json
from itertools import accumulate

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol import Create, ForkFrom
from everbrook.protocol.create import parse_sub_offset
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import (
    InvalidHeader,
    InvalidOffset,
)
from everbrook.protocol.messages import unpack
from tests.kit.generated import generated
from tests.kit.views import JSON, NOW, KeptStream, Streams


def messages(stream: KeptStream) -> object:
    return json.loads(unpack(stream.head.identity, stream.stored))


@generated
@given(st.integers(0, 10**16 - 1))
def test_a_sub_offset_is_a_plain_integer(count: int) -> None:
    """§4.2."""
    assert parse_sub_offset(b"%d" % count) == count


@pytest.mark.parametrize("text", [b"", b"-1", b"abc", b"1.5", b"05", b"00", b"+1", b" 1", b"1\n", b"\xb2", b"1" * 17])
def test_another_spelling_of_a_sub_offset_is_refused(text: bytes) -> None:
    """§4.2: 400."""
    with pytest.raises(InvalidHeader, match="Stream-Fork-Sub-Offset must be a non-negative integer"):
        parse_sub_offset(text)


@generated
@given(st.lists(st.binary(min_size=1, max_size=6), min_size=1, max_size=4), st.data())
def test_a_sub_offset_counts_bytes_up_to_the_end_of_the_next_append(bodies: list[bytes], data: st.DataObject) -> None:
    """§4.2: in every mode but JSON; past it is 400."""
    streams = Streams()
    source = streams.hold(b"s", *bodies)
    index = data.draw(st.integers(0, len(bodies) - 1))
    anchor = [0, *source.ends][index]
    sub_offset = data.draw(st.integers(0, len(bodies[index]) + 2))

    if sub_offset > len(bodies[index]):
        with pytest.raises(InvalidHeader, match="reaches past the append that follows the anchor"):
            streams.fork(b"f", b"s", anchor, sub_offset)
    else:
        assert streams.fork(b"f", b"s", anchor, sub_offset).stored == b"".join(bodies)[: anchor + sub_offset]


def test_a_sub_offset_stops_at_the_end_of_a_batch() -> None:
    """§4.2, gap G-16: two messages follow, and a third is in the next batch."""
    streams = Streams()
    streams.hold(b"s", b"[1,2]", b"[3]", content_type=JSON)

    assert messages(streams.fork(b"f", b"s", 0, parse_sub_offset(b"2"))) == [1, 2]
    with pytest.raises(InvalidHeader, match="reaches past the append"):
        streams.fork(b"g", b"s", 0, 3)


@generated
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_a_sub_offset_counts_messages_of_the_next_batch_in_json(batches: list[int], data: st.DataObject) -> None:
    """§4.2, gap G-16: whatever their length; past the batch is 400."""
    streams = Streams()
    values = [10**number for number in range(sum(batches))]
    firsts = [0, *accumulate(batches)]
    bodies = [json.dumps(values[first : first + size]).encode() for first, size in zip(firsts, batches, strict=False)]
    source = streams.hold(b"s", *bodies, content_type=JSON)
    first = data.draw(st.integers(0, len(values) - 1))
    sub_offset = data.draw(st.integers(0, 6))
    left_in_batch = min(end for end in firsts if end > first) - first

    anchor = [0, *source.ends][first]
    if sub_offset > left_in_batch:
        with pytest.raises(InvalidHeader, match="reaches past the append that follows the anchor"):
            streams.fork(b"f", b"s", anchor, sub_offset)
    else:
        assert messages(streams.fork(b"f", b"s", anchor, sub_offset)) == values[: first + sub_offset]


@pytest.mark.parametrize("offset", [None, 5])
def test_a_sub_offset_at_the_tail_reaches_past_it(offset: int | None) -> None:
    """§4.2: overshoot is 400."""
    streams = Streams()
    streams.hold(b"s", b"first")

    with pytest.raises(InvalidHeader, match="reaches past the source's tail"):
        decide(streams, Create(b"f", NOW, 2, fork=ForkFrom(b"s", offset, 1)))


def test_an_immense_sub_offset_is_refused_without_counting_to_it() -> None:
    """§4.2."""
    streams = Streams()
    streams.hold(b"s", b"[1,2]", content_type=JSON)

    with pytest.raises(InvalidHeader):
        decide(streams, Create(b"f", NOW, 2, fork=ForkFrom(b"s", 0, 10**16 - 1)))


def test_a_fork_can_be_cut_inside_what_it_inherited_by_a_sub_offset() -> None:
    """§4.2: the cut is a boundary on that fork alone."""
    streams = Streams()
    streams.hold(b"s", b"abcdef")
    streams.fork(b"f", b"s", 0, 3)

    assert streams.fork(b"g", b"f", 0, 2).stored == b"ab"
    assert streams.fork(b"h", b"f", 3).stored == b"abc"
    with pytest.raises(InvalidOffset):
        decide(streams, Create(b"i", NOW, 9, fork=ForkFrom(b"s", 3)))
