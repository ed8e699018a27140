"""Where an answer ends."""

import pytest

from bench.responses import Extent, MalformedAnswer, header_value, measure_answer

SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n"


@pytest.mark.parametrize("answer, payload_bytes", [(SIZED, 5), (CHUNKED, 15)])
def test_an_answer_ends_where_its_framing_says(answer: bytes, payload_bytes: int) -> None:
    assert measure_answer(answer, bodiless=False) == Extent(len(answer), payload_bytes)


@pytest.mark.parametrize("answer", [SIZED, CHUNKED])
def test_an_answer_is_incomplete_until_its_last_byte(answer: bytes) -> None:
    assert [measure_answer(answer[:size], bodiless=False) for size in range(len(answer))] == [None] * len(answer)


def test_what_follows_an_answer_is_not_part_of_it() -> None:
    assert measure_answer(SIZED + SIZED, bodiless=False) == Extent(len(SIZED), 5)


def test_a_bodiless_answer_ends_with_its_head_whatever_its_length_says() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"

    assert measure_answer(head, bodiless=True) == Extent(len(head), 0)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfive\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n",
    ],
)
def test_an_answer_whose_end_cannot_be_known_is_refused(answer: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        measure_answer(answer, bodiless=False)


def test_a_header_is_found_by_its_whole_name() -> None:
    head = b"http/1.1 200 ok\r\nx-etag: no\r\netag:  yes \r\n"

    assert header_value(head, b"etag") == b"yes"
    assert header_value(head, b"tag") is None
