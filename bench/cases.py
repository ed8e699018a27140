"""The table of cases: which loads the servers are put under."""

import json
from collections.abc import Iterator, Mapping
from itertools import count, repeat

from bench.catchup import CatchUp
from bench.channel import Expectation
from bench.load import Case, ClosedLoop, RequestPlan, Target
from bench.longpoll import LongPoll
from bench.requests import format_request
from bench.sse import FanOut
from bench.streams import StreamPlan

_BYTES = "application/octet-stream"
_JSON = "application/json"
_SMALL = b"x" * 100
_MEGABYTE = b"x" * 1_000_000
_PAGE = b"x" * 10_000
_JSON_OBJECT = json.dumps({"id": 1, "kind": "measured", "text": "y" * 60}).encode()


def _json_batch(messages: int) -> bytes:
    """An array of objects of about 100 bytes each."""
    return json.dumps([{"id": number, "kind": "measured", "text": "y" * 60} for number in range(messages)]).encode()


def _append(body: bytes, content_type: str = _BYTES) -> RequestPlan:
    """The same append again and again; connections are spread over the streams."""

    def requests(target: Target, connection: int) -> Iterator[bytes]:
        path = target.paths[connection % len(target.paths)]
        return repeat(format_request("POST", path, body, content_type, target.headers))

    return requests


def _append_as_producer(target: Target, connection: int) -> Iterator[bytes]:
    """Every connection is a producer of its own; only the sequence number changes from request to request."""
    producer = {"Producer-Id": f"producer-{connection}", "Producer-Epoch": "0", "Producer-Seq": "SEQ"}
    template = format_request("POST", target.paths[0], _SMALL, _BYTES, {**producer, **target.headers})
    before, after = template.split(b"SEQ")
    return (b"%b%d%b" % (before, number, after) for number in count())


def _read(method: str) -> RequestPlan:
    """The same read of the whole stream again and again."""

    def requests(target: Target, connection: int) -> Iterator[bytes]:  # noqa: ARG001 - every connection reads the same
        return repeat(format_request(method, target.paths[0], headers=target.headers))

    return requests


def _small_appends(connections: int, streams: int) -> ClosedLoop:
    plural = "s" if connections > 1 else ""
    return ClosedLoop(
        name=f"append-c{connections}-s{streams}",
        title=f"append 100 B, {connections} connection{plural}, {streams} stream{'s' if streams > 1 else ''}",
        streams=(StreamPlan(_BYTES),) * streams,
        connections=connections,
        expectation=Expectation(204),
        requests=_append(_SMALL),
    )


_CASES: tuple[Case, ...] = (
    _small_appends(64, 1),
    _small_appends(64, 64),
    _small_appends(1, 1),
    ClosedLoop(
        name="append-producer",
        title="append 100 B as 64 producers, 1 stream",
        streams=(StreamPlan(_BYTES),),
        connections=64,
        expectation=Expectation(200, payload_bytes=0),
        requests=_append_as_producer,
    ),
    ClosedLoop(
        name="append-1mb",
        title="append 1 MB, 4 connections, 4 streams",
        streams=(StreamPlan(_BYTES),) * 4,
        connections=4,
        expectation=Expectation(204),
        requests=_append(_MEGABYTE),
        max_operations=400,
    ),
    ClosedLoop(
        name="json-batch",
        title="append 100 JSON messages, 64 connections, 1 stream",
        streams=(StreamPlan(_JSON),),
        connections=64,
        expectation=Expectation(204),
        requests=_append(_json_batch(100), _JSON),
        max_operations=20_000,
    ),
    ClosedLoop(
        name="get-10kb",
        title="GET 10 KB, 64 connections",
        streams=(StreamPlan(_BYTES, (_PAGE,)),),
        connections=64,
        expectation=Expectation(200, payload_bytes=len(_PAGE)),
        requests=_read("GET"),
    ),
    ClosedLoop(
        name="head",
        title="HEAD, 64 connections",
        streams=(StreamPlan(_BYTES, (_PAGE,)),),
        connections=64,
        expectation=Expectation(200, to_head=True),
        requests=_read("HEAD"),
    ),
    LongPoll(name="long-poll", title="long-poll round trip, 1 reader", pairs=1),
    FanOut(name="sse-500", title="SSE, 500 readers, 100 messages/s", readers=500, rate=100),
)

# What a disk is asked for: its syncs shared by more and more connections, and a long read.
_DURABLE_CASES: tuple[Case, ...] = (
    _small_appends(1, 1),
    _small_appends(16, 1),
    _small_appends(64, 1),
    _small_appends(256, 1),
    _small_appends(64, 64),
    CatchUp(name="catch-up", title="catch-up, 100 MB of 100 B messages, MB", messages=1_000_000),
)

_FURTHER_CASES: tuple[Case, ...] = (
    _small_appends(256, 64),
    _small_appends(256, 256),
    ClosedLoop(
        name="append-json",
        title="append one JSON object, 64 connections, 1 stream",
        streams=(StreamPlan(_JSON),),
        connections=64,
        expectation=Expectation(204),
        requests=_append(_JSON_OBJECT, _JSON),
    ),
    ClosedLoop(
        name="get-100x100",
        title="GET 100 messages of 100 B, 64 connections",
        streams=(StreamPlan(_BYTES, (_SMALL,) * 100),),
        connections=64,
        expectation=Expectation(200, payload_bytes=100 * len(_SMALL)),
        requests=_read("GET"),
    ),
    LongPoll(name="long-poll-64", title="long-poll round trip, 64 readers of 64 streams", pairs=64),
    FanOut(name="sse-100", title="SSE, 100 readers, 100 messages/s", readers=100, rate=100),
    FanOut(name="sse-1000", title="SSE, 1,000 readers, 100 messages/s", readers=1000, rate=100),
)

DEFAULT_CASES: tuple[str, ...] = tuple(case.name for case in _CASES)
DURABLE_CASES: tuple[str, ...] = tuple(case.name for case in _DURABLE_CASES)
CASES: Mapping[str, Case] = {case.name: case for case in (*_CASES, *_DURABLE_CASES, *_FURTHER_CASES)}

# What all servers are asked when they take turns in one run.
PEER_CASES: tuple[str, ...] = (
    "append-c64-s1",
    "append-producer",
    "append-json",
    "json-batch",
    "get-10kb",
    "sse-1000",
)
DURABLE_PEER_CASES: tuple[str, ...] = (
    "append-c1-s1",
    "append-c64-s1",
    "append-c64-s64",
    "append-c256-s64",
    "sse-500",
)

# What the durable modes are built to reach: a ratio to the reference's file mode, or for a long read MB a second.
AIMS: Mapping[str, str] = {
    "append-c1-s1": ">= 3x",
    "append-c64-s1": ">= 20x",
    "append-c64-s64": ">= 15x",
    "catch-up": ">= 500 MB/s",
}
