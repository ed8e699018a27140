"""The long-poll and SSE loads notice readers that are given too little, too much or the wrong thing."""

import asyncio
import os
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from bench.channel import LoadFailed
from bench.load import Bounds, Case, Load, Target
from bench.longpoll import LongPoll
from bench.meter import Meter
from bench.sse import FanOut
from tests.tooling.bench.fake_server import ACKNOWLEDGED, EVENT_STREAM, Answer, FakeConnection, answering

FAN_OUT = FanOut(name="fan-out", title="", readers=3, rate=200)
Event = Callable[[int, bytes], bytes]


TEN_MESSAGES = Bounds(0.025, 1000)


def run_against(case: Case, answer: Answer, bounds: Bounds = TEN_MESSAGES) -> Load:
    async def run() -> Load:
        async with answering(answer) as port:
            target = Target(port, ("/v1/stream/a",), ("0",))
            return await case.load(target, bounds, Meter(os.getpid()))

    return asyncio.run(run())


def fan_out(event: Event) -> Answer:
    """A server that sends `event(number, message)` to every reader for every append."""
    readers: list[FakeConnection] = []

    def answer(connection: FakeConnection, data: bytes) -> None:
        if data.startswith(b"GET"):
            readers.append(connection)
            connection.write(EVENT_STREAM)
            return
        for request in data.split(b"POST ")[1:]:  # a busy machine lets appends arrive together
            connection.write(ACKNOWLEDGED)
            message = request.partition(b"\r\n\r\n")[2]
            for reader in readers:
                reader.write(event(int(message[1:9]), message))

    return answer


def faithful(_number: int, message: bytes) -> bytes:
    return b"event: data\ndata:" + message + b"\n\nevent: control\ndata:{}\n\n"


def test_every_delivery_to_every_reader_is_counted() -> None:
    seen = run_against(FAN_OUT, fan_out(faithful))

    assert (len(seen.latencies_ns), seen.missing) == (3 * 10, 0)


def test_a_message_may_be_torn_between_two_reads() -> None:
    held_back = b""

    def torn_in_its_number(number: int, message: bytes) -> bytes:
        nonlocal held_back
        event = faithful(number, message)
        cut = event.index(b"#") + 5
        sent, held_back = held_back + event[:cut], event[cut:]
        return sent

    seen = run_against(
        FanOut(name="fan-out", title="", readers=1, rate=200, drain_secs=0.1), fan_out(torn_in_its_number)
    )

    assert (len(seen.latencies_ns), seen.missing) == (9, 1)  # the rest of the last message stays held back


def test_a_lost_message_fails_the_run() -> None:
    with pytest.raises(LoadFailed, match="expected message 4"):
        run_against(FAN_OUT, fan_out(lambda number, message: b"" if number == 4 else faithful(number, message)))


def test_a_repeated_message_fails_the_run() -> None:
    with pytest.raises(LoadFailed, match="expected message 1"):
        run_against(FAN_OUT, fan_out(lambda number, message: faithful(number, message) * 2))


def test_deliveries_that_come_too_late_are_counted_as_missing() -> None:
    impatient = replace(FAN_OUT, drain_secs=0.1)

    seen = run_against(impatient, fan_out(lambda number, message: faithful(number, message) if number < 8 else b""))

    assert (len(seen.latencies_ns), seen.missing) == (3 * 8, 3 * 2)


def test_a_refused_reader_fails_the_run() -> None:
    refusal = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"

    with pytest.raises(LoadFailed, match="503"):
        run_against(FAN_OUT, lambda connection, _: connection.write(refusal))


def long_poll(payload: bytes) -> Answer:
    """A server whose every append wakes the reader with `payload`."""
    waiting: list[FakeConnection] = []
    delivery = b"HTTP/1.1 200 OK\r\nStream-Next-Offset: 7\r\nContent-Length: %d\r\n\r\n%b" % (len(payload), payload)
    offsets: list[bytes] = []

    def answer(connection: FakeConnection, data: bytes) -> None:
        offset = re.search(rb"offset=(\d+)&live=long-poll", data)
        if offset is None:
            connection.write(ACKNOWLEDGED)
            waiting.pop().write(delivery)
        else:
            offsets.append(offset[1])
            assert offset[1] == (b"0" if len(offsets) == 1 else b"7")
            waiting.append(connection)

    return answer


def test_a_reader_polls_on_from_the_offset_it_was_given() -> None:
    seen = run_against(LongPoll(name="long-poll", title="", pairs=1), long_poll(b"m" * 100), Bounds(60, 20))

    assert len(seen.latencies_ns) == 20


def test_a_reader_that_gets_another_payload_fails_the_run() -> None:
    with pytest.raises(LoadFailed, match="payload of 100 bytes, got 99"):
        run_against(LongPoll(name="long-poll", title="", pairs=1), long_poll(b"m" * 99))
