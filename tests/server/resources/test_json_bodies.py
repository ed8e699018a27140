"""JSON streams: what is no JSON is refused, and what is comes back byte for byte (§9.1)."""

import pytest

from tests.kit.servers import StartEither
from tests.kit.wire import Wire

JSON = "application/json"

BAD_BODIES = {
    "not JSON": b"hello",
    "half an object": b'{"a":',
    "two values": b"1 2",
    "trailing comma": b"[1,2,]",
    "single quotes": b"{'a': 1}",
    "comment": b"1 // one",
    "NaN": b"NaN",
    "leading zero": b"01",
    "plus sign": b"+1",
    "control character in a string": b'"a\nb"',
    "bad escape": rb'"\x"',
    "half an escape of a surrogate": rb'"\ud80"',
    "byte order mark": b"\xef\xbb\xbf1",
    "Latin-1 in a string": b'"caf\xe9"',
    "overlong encoding in a string": b'"\xc0\xaf"',
    "encoded surrogate in a string": b'"\xed\xa0\x80"',
    "UTF-16": '"a"'.encode("utf-16"),
    "NUL": b"\0",
    "white space": b"  \n",
    "deep arrays": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep and unfinished": b"[" * 1_000_000,
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
def test_a_body_that_is_no_json_is_a_400_and_changes_nothing(wire: Wire, path: str, body: bytes) -> None:
    wire.create(path, JSON)
    assert wire.append(path, body, JSON).refusal == (400, "invalid_json")
    assert wire.get(path).body == b"[]"


@pytest.mark.parametrize("body", [b"{", b'"\xff"', b"[" * 5000])
def test_a_stream_does_not_begin_with_what_is_no_json(wire: Wire, path: str, body: bytes) -> None:
    assert wire.request("PUT", path, body, content_type=JSON).refusal == (400, "invalid_json")
    assert wire.get(path).status == 404


@pytest.mark.parametrize(
    "message",
    [
        b"123456789012345678901234567890",
        b"0.1000000000000000055511151231257827021181583404541015625",
        b"1e2",
        b"1E+2",
        b"-0",
        b'{"b":1,"a":2}',
        b'{"a":1,"a":2}',
        b'{ "a" :\t[ 1 ,  2 ] }',
        b'{\n  "a": 1\r\n}',
        rb'"\u00e9\/\ud83d\ude00"',
        '"é😀\u2028"'.encode(),
        b'""',
        b"null",
        b'{"":{}}',
    ],
)
def test_json_comes_back_byte_for_byte(wire: Wire, path: str, message: bytes) -> None:
    wire.create(path, JSON)
    wire.append(path, message, JSON)
    wire.append(path, b"[%b, 1 ,%b]" % (message, message), JSON)
    assert wire.get(path).body == b"[%b,%b,1,%b]" % (message, message, message)


def test_only_one_level_of_array_is_flattened(wire: Wire, path: str) -> None:
    """§9.1.2."""
    wire.create(path, JSON)
    wire.append(path, b"[[1,2],[[3]],[]]", JSON)
    assert wire.get(path).body == b"[[1,2],[[3]],[]]"


def test_json_comes_back_byte_for_byte_over_sse(wire: Wire, path: str) -> None:
    wire.create(path, JSON, b'[{ "a":\t1e2 },12345678901234567890]')
    assert wire.follow(f"{path}?offset=-1&live=sse").data() == b'[{ "a":\t1e2 },12345678901234567890]'


def test_a_message_with_line_ends_is_still_one_json_value_over_sse(wire: Wire, path: str) -> None:
    wire.create(path, JSON, b'{\n"a":\n1}')
    assert wire.follow(f"{path}?offset=-1&live=sse").data() == b'[{\n"a":\n1}]'


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_mode_is_told_by_the_media_type(wire: Wire, path: str, content_type: str) -> None:
    wire.create(path, content_type)
    wire.append(path, b"[1,2]", JSON)
    assert (wire.get(path).body, wire.get(path).headers["content-type"]) == (b"[1,2]", content_type)


def test_a_batch_of_very_many_messages_is_stored_whole_and_in_its_turn(wire: Wire, path: str) -> None:
    wire.create(path, content_type=JSON)
    numbers = b",".join(b"%d" % number for number in range(200_000))
    wire.ask("POST", path, b"[" + numbers + b"]", content_type=JSON)
    wire.ask("POST", path, b'"last"', content_type=JSON)
    assert [wire.read().status for _ in range(2)] == [204, 204]
    assert wire.get(path).body[:20] == b"[" + numbers[:19]
    assert wire.get(f"{path}?last=2").body == b'[199999,"last"]'


def test_a_stream_begins_with_a_batch_of_very_many_messages(wire: Wire, path: str) -> None:
    wire.create(path, content_type=JSON, body=b"[" + b"1," * 100_000 + b"2]")
    assert wire.get(f"{path}?last=2").body == b"[1,2]"


def test_a_batch_of_very_many_messages_with_a_fault_at_its_end_leaves_nothing(wire: Wire, path: str) -> None:
    wire.create(path, content_type=JSON)
    refused = wire.request("POST", path, b"[" + b"1," * 200_000 + b"nul]", content_type=JSON)
    assert refused.refusal == (400, "invalid_json")
    assert wire.get(path).body == b"[]"


def test_lone_surrogates_come_back_byte_for_byte_in_every_mode(start_either: StartEither, path: str) -> None:
    """Gap G-03: JavaScript sends them when a chunk splits an emoji."""
    server = start_either(server__long_poll_timeout_secs=0.1)
    with server.connect() as wire, server.connect() as reader:
        wire.create(path, JSON, rb'"\ud83d"')
        follower = reader.follow(f"{path}?offset=-1&live=sse")
        assert follower.data() == rb'["\ud83d"]'
        assert wire.append(path, rb'[{"\ude00": 1 }, "\\ud83d"]', JSON).status == 204
        assert follower.data() == rb'[{"\ude00": 1 },"\\ud83d"]'
        assert wire.get(path).body == rb'["\ud83d",{"\ude00": 1 },"\\ud83d"]'
        assert wire.get(f"{path}?offset=-1&live=long-poll").body == wire.get(path).body
        assert wire.get(f"{path}?last=2").body == rb'[{"\ude00": 1 },"\\ud83d"]'
