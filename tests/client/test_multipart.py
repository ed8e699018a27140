"""The parts of a bootstrap, however they are cut on their way: the inverse of what the server writes (002 §3.2)."""

from array import array
from itertools import accumulate, pairwise
from time import perf_counter

import pytest
from hypothesis import given, strategies as st

from everbrook.client.errors import InvalidAnswer
from everbrook.client.multipart import BodyPart, PartDecoder
from everbrook.protocol.multipart import closing, content_type, next_part_head, part_head, parts
from tests.kit.views import head_of

BOUNDARY = b"everbrook-0123456789abcdef"
TYPE = content_type(BOUNDARY).decode()
# Pieces that look like delimiters, or like the beginning of one.
DATA = st.lists(st.sampled_from([b"\r\n", b"--", b"\r", b"\n", b"everbrook-", b"\r\n--everbrook-0", b"x"])).map(
    b"".join
)


def written(messages: list[bytes]) -> bytes:
    """A bootstrap without a snapshot: the first part is empty."""
    ends = array("Q", list(accumulate(map(len, messages))))
    head = next_part_head(BOUNDARY, b"text/plain")
    body = parts(head_of(b"text/plain").identity, head, 0, ends, b"".join(messages))
    return part_head(BOUNDARY, b"application/json") + body + closing(BOUNDARY)


def read(pieces: list[bytes]) -> tuple[list[BodyPart], bool]:
    decoder = PartDecoder(TYPE)
    return [part for piece in pieces for part in decoder.feed(piece)], decoder.ended


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[begin:end] for begin, end in pairwise(bounds)]


@given(st.lists(DATA | st.binary()), st.lists(st.integers(0, 10_000)))
def test_parts_come_back_wherever_they_are_cut(messages: list[bytes], places: list[int]) -> None:
    found, ended = read(cut(written(messages), places))
    assert found == [BodyPart("application/json", b""), *(BodyPart("text/plain", message) for message in messages)]
    assert ended


@given(st.lists(DATA, max_size=3))
def test_parts_come_back_byte_by_byte(messages: list[bytes]) -> None:
    body = written(messages)
    assert read([body[at : at + 1] for at in range(len(body))]) == read([body])


@given(st.lists(DATA, max_size=3), st.integers(0, 10_000))
def test_what_is_cut_off_has_not_ended_and_has_whole_parts_only(messages: list[bytes], place: int) -> None:
    body = written(messages)
    whole, _ = read([body])
    found, ended = read([body[: place % (len(body) - len(b"--\r\n") + 1)]])
    assert not ended
    assert found == whole[: len(found)]


def test_what_follows_the_closing_boundary_is_nothing() -> None:
    decoder = PartDecoder(TYPE)
    decoder.feed(written([b"a"]))
    assert decoder.feed(b"\r\n" + written([b"b"])) == []


def test_text_that_begins_as_a_boundary_does_is_text() -> None:
    message = b"a\r\n--" + BOUNDARY + b"x b"
    assert read([written([message])])[0][1] == BodyPart("text/plain", message)


@pytest.mark.timing
@pytest.mark.parametrize("feed_bytes", [100, 65536])
def test_a_huge_part_takes_time_in_proportion_to_its_size(feed_bytes: int) -> None:
    body = written([b"\r\n-" * 1_000_000])
    decoder, began = PartDecoder(TYPE), perf_counter()
    for at in range(0, len(body), feed_bytes):
        decoder.feed(body[at : at + feed_bytes])
    assert decoder.ended
    assert perf_counter() - began < 5


@pytest.mark.parametrize("given_type", ["", "text/html", "multipart/mixed", 'text/plain; boundary="a"'])
def test_what_is_no_multipart_is_an_invalid_answer(given_type: str) -> None:
    with pytest.raises(InvalidAnswer, match="a bootstrap must be multipart/mixed with a boundary"):
        PartDecoder(given_type)


def test_a_boundary_may_be_quoted() -> None:
    decoder = PartDecoder('multipart/mixed; boundary="a b"; charset=x')
    assert decoder.feed(b"--a b\r\n\r\nhello\r\n--a b--") == [BodyPart("", b"hello")]


def test_a_part_whose_headers_do_not_end_is_an_invalid_answer() -> None:
    with pytest.raises(InvalidAnswer, match="no empty line after its headers"):
        PartDecoder("multipart/mixed; boundary=a").feed(b"--a\r\nContent-Type: text/plain\r\n--a--")
