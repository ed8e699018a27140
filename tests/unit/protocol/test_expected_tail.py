"""Appending only if the tail is where the writer believes it to be."""

import pytest

from everbrook.protocol import Append, Appended, Claim, Closed, Duplicate
from everbrook.protocol.append import parse_expected_tail
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import ContentTypeMismatch, InvalidHeader, StreamClosed, TailMoved
from tests.kit.views import JSON, NOW, TEXT, Streams


def matching(tail: int, body: bytes = b"x", *, now: int = NOW, close: bool = False) -> Append:
    return Append(b"s", now, TEXT, body, close, expected_tail=tail)


def test_an_append_at_the_tail_that_its_writer_knows_is_taken() -> None:
    """Ours: `If-Match`."""
    streams = Streams()
    streams.hold(b"s", b"first")

    assert isinstance(streams.run(matching(5)), Appended)
    assert streams.kept[b"s"].stored == b"firstx"


@pytest.mark.parametrize("tail", [0, 4, 6])
def test_an_append_at_another_tail_is_refused(tail: int) -> None:
    """Ours: 412, and where the tail is."""
    streams = Streams()
    streams.hold(b"s", b"first")

    with pytest.raises(TailMoved, match=f"the tail is at 0000000000000005, not at {tail:016d}") as refusal:
        decide(streams, matching(tail))
    assert refusal.value.headers == ((b"Stream-Next-Offset", b"0000000000000005"),)


def test_a_close_can_ask_for_its_tail_too() -> None:
    """Ours: nobody has appended since."""
    streams = Streams()
    streams.hold(b"s", b"first")

    with pytest.raises(TailMoved):
        decide(streams, matching(0, b"", close=True))
    assert isinstance(streams.run(matching(5, b"", close=True)), Closed)


def test_the_tail_is_looked_at_last() -> None:
    """Ours: whoever repeats an append learns that it is there."""
    streams = Streams()
    streams.hold(b"s", b"first")
    claimed = Append(b"s", NOW, TEXT, b"x", claim=Claim(b"p", 0, 0), expected_tail=5)
    streams.run(claimed)

    assert isinstance(streams.run(claimed), Duplicate)
    with pytest.raises(ContentTypeMismatch):
        decide(streams, Append(b"s", NOW, JSON, b"1", expected_tail=0))
    streams.run(Append(b"s", NOW, close=True))
    with pytest.raises(StreamClosed):
        decide(streams, matching(0))


@pytest.mark.parametrize(
    "if_match, tail",
    [(None, None), (b"*", None), (b"0000000000000005", 5), (b'"0000000000000005"', 5), (b'"0000000000000000"', 0)],
)
def test_the_expected_tail_is_an_offset_with_or_without_quotes(if_match: bytes | None, tail: int | None) -> None:
    """RFC 9110 §13.1.1; `*` is any."""
    assert parse_expected_tail(if_match) == tail


@pytest.mark.parametrize("if_match", [b"-1", b"now", b'"now"'])
def test_a_tail_is_not_expected_by_name(if_match: bytes) -> None:
    with pytest.raises(InvalidHeader, match="If-Match must be the Stream-Next-Offset of an earlier response, got"):
        parse_expected_tail(if_match)


@pytest.mark.parametrize("if_match", [b"", b"5", b'W/"0000000000000005"', b'"0000000000000005", "x"'])
def test_another_if_match_is_refused(if_match: bytes) -> None:
    with pytest.raises(InvalidHeader, match="If-Match must be the Stream-Next-Offset of an earlier response, got"):
        parse_expected_tail(if_match)
