"""Dead letters in a stream: once each, in their order, and cut where they are too large for it."""

import base64
import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from everbrook import Client
from everbrook.spark.connection import connect, disconnect
from everbrook.spark.options import ServerOptions
from everbrook.spark.sinks.dead_letters import MAX_PAYLOAD_BYTES, Letter, append_letters, encode
from everbrook.spark.streams.appender import BatchTooLarge, Producer
from tests.kit.server_process import serving


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with low limits for an append and for a stream."""
    limits = {"DS_LIMITS__MAX_APPEND_BYTES": "2000", "DS_LIMITS__MAX_STREAM_BYTES": "10000"}
    with serving(tmp_path_factory.mktemp("small"), **limits) as started:
        yield "http://{}:{}".format(*started.address)
        disconnect()


def letters_of(*payloads: bytes) -> list[Letter]:
    return [Letter({"stream": "s", "offset": str(place)}, "no", payload) for place, payload in enumerate(payloads)]


def append(url: str, stream: str, letters: list[Letter]) -> list[Any]:
    server = ServerOptions(url=url)
    append_letters(connect(server), server, stream, Producer("dead-letters-q", 0), letters)
    with Client(url) as client:
        return client.stream(stream).read().all()


def test_a_letter_that_is_too_large_is_cut_and_says_so(small: str) -> None:
    letters = letters_of(b"first", b"x" * 5000, b"\xff" * 5000, b"last", b"\0" * 3000)
    append(small, "cut", letters)
    found = append(small, "cut", letters)
    assert [letter["offset"] for letter in found] == ["0", "1", "2", "3", "4"]
    assert [letter.get("payload_bytes") for letter in found] == [None, 5000, 5000, None, 3000]
    assert (found[0]["payload"], found[3]["payload"]) == ("first", "last")
    assert "x" * 200 in found[1]["payload"]
    assert set(base64.b64decode(found[2]["payload_base64"])) == {0xFF}


def test_a_long_reason_is_cut_with_its_payload(small: str) -> None:
    (found,) = append(small, "reason", [Letter({"stream": "s", "offset": "0"}, "r" * 5000, b"x" * 5000)])
    assert (set(found["reason"]), found["payload_bytes"]) == ({"r"}, 5000)


def test_letters_that_were_written_in_part_are_completed(small: str) -> None:
    letters = letters_of(*[b"%d" % number for number in range(9)], b"x" * 5000)
    append(small, "part", letters[:4])
    assert [letter["offset"] for letter in append(small, "part", letters)] == [str(number) for number in range(10)]


@pytest.mark.parametrize("lost", range(9))
@pytest.mark.parametrize("stored", [1, 4, 8])
def test_letters_that_are_written_again_without_lost_ones_are_exact(small: str, lost: int, stored: int) -> None:
    stream = f"lost-{lost}-{stored}"
    letters = letters_of(*[b"%d" % number for number in range(8)], b"x" * 5000)
    append(small, stream, letters[:stored])
    left = [letter for place, letter in enumerate(letters) if place != lost]
    expected = [str(place) for place in range(9) if place != lost or place < stored]
    for _ in range(2):
        assert [letter["offset"] for letter in append(small, stream, left)] == expected


NAMES = ("é" * 200 + "a", "é" * 200 + "b", "c")
"""Streams, two of whose names begin alike and are too long for a position."""


@pytest.mark.parametrize("lost", NAMES, ids=("a", "b", "c"))
@pytest.mark.parametrize("stored", [1, 6, 9])
def test_letters_of_similar_places_are_told_from_each_other(small: str, stored: int, lost: str) -> None:
    places = product(NAMES, ("t", None), "01")  # two messages at each place
    letters = [
        Letter({"stream": name, "offset": "7", "table": table}, "no", text.encode()) for name, table, text in places
    ]
    letters.sort(key=lambda letter: letter.key)
    stream = f"similar-{stored}-{lost[-1]}"
    append(small, stream, letters[:stored])
    left = [letter for letter in letters if letter.place["stream"] != lost]
    expected = letters[:stored] + [letter for letter in letters[stored:] if letter in left]
    assert append(small, stream, left) == [json.loads(encode(letter)) for letter in expected]


def test_a_full_stream_is_no_reason_to_cut(small: str) -> None:
    with pytest.raises(BatchTooLarge, match="a stream holds at most 10000 bytes"):
        append(small, "full", letters_of(*[b"x" * 1000] * 12))
    with Client(small) as client:
        assert not any("payload_bytes" in letter for letter in client.stream("full").read().all())


def test_no_letter_is_larger_than_a_server_takes_by_default() -> None:
    (whole, large) = letters_of(b"x" * MAX_PAYLOAD_BYTES, "ä".encode() * MAX_PAYLOAD_BYTES)
    assert b"payload_bytes" not in encode(whole)
    assert encode(large).endswith(b'","payload_bytes":%d}' % (2 * MAX_PAYLOAD_BYTES))
    assert len(encode(letters_of(b"\0" * 2 * MAX_PAYLOAD_BYTES)[0])) < 8 * MAX_PAYLOAD_BYTES


def test_a_character_is_not_cut_in_two() -> None:
    (letter,) = letters_of("aä".encode() * 10)
    assert encode(letter, 5).endswith('"payload":"aäa","payload_bytes":30}'.encode())
