"""A figure counts only if every answer was right: these are the ways in which one can be wrong."""

import asyncio
import os
from itertools import repeat

import pytest

from bench.channel import Expectation, LoadFailed
from bench.load import Bounds, Load, run_closed_loop
from bench.meter import Meter
from tests.tooling.bench.fake_server import ACKNOWLEDGED, Answer, FakeConnection, answering

REQUEST = b"POST /v1/stream/a HTTP/1.1\r\nContent-Length: 1\r\n\r\nx"
TEN_OPERATIONS = Bounds(5, 10)
FIVE_BYTES = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def run_against(answer: Answer, expectation: Expectation, bounds: Bounds = TEN_OPERATIONS) -> Load:
    async def run() -> Load:
        async with answering(answer) as port:
            plans = [repeat(REQUEST), repeat(REQUEST)]
            return await run_closed_loop(port, plans, expectation, bounds, Meter(os.getpid()))

    return asyncio.run(run())


def always(answer: bytes) -> Answer:
    return lambda connection, _: connection.write(answer)


def test_every_expected_answer_is_counted_until_the_bound_on_operations() -> None:
    seen = run_against(always(ACKNOWLEDGED), Expectation(204))

    assert 10 <= len(seen.latencies_ns) <= 11  # the second connection may have had its last request under way


def test_the_bound_on_time_ends_a_load() -> None:
    seen = run_against(always(ACKNOWLEDGED), Expectation(204), Bounds(0.05, 10**9))

    assert max(seen.latencies_ns) < 1_000_000_000


def test_an_answer_may_come_in_pieces() -> None:
    def in_pieces(connection: FakeConnection, _: bytes) -> None:
        loop = asyncio.get_running_loop()
        for number, piece in enumerate((FIVE_BYTES[:4], FIVE_BYTES[4:30], FIVE_BYTES[30:])):
            loop.call_later(number * 0.005, connection.write, piece)

    assert run_against(in_pieces, Expectation(200, payload_bytes=5), Bounds(5, 4)).latencies_ns


@pytest.mark.parametrize("status", [b"413 Content Too Large", b"200 OK", b"503 Service Unavailable"])
def test_any_status_but_the_expected_one_fails_the_run(status: bytes) -> None:
    refusal = b"HTTP/1.1 %b\r\nContent-Length: 0\r\n\r\n" % status

    with pytest.raises(LoadFailed, match=status.decode()):
        run_against(always(refusal), Expectation(204))


def test_one_refusal_among_many_answers_fails_the_run() -> None:
    answers = iter([ACKNOWLEDGED] * 50 + [b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"] * 2)

    with pytest.raises(LoadFailed, match="429"):
        run_against(lambda connection, _: connection.write(next(answers)), Expectation(204), Bounds(5, 1000))


def test_a_connection_that_the_server_closes_fails_the_run() -> None:
    with pytest.raises(LoadFailed, match="closed by the server"):
        run_against(lambda connection, _: connection.transport.close(), Expectation(204))


def test_a_payload_of_another_size_fails_the_run() -> None:
    with pytest.raises(LoadFailed, match="payload of 6 bytes, got 5"):
        run_against(always(FIVE_BYTES), Expectation(200, payload_bytes=6))


def test_an_answer_to_no_request_fails_the_run() -> None:
    with pytest.raises(LoadFailed, match="to no request"):
        run_against(always(ACKNOWLEDGED * 3), Expectation(204), Bounds(5, 1))


def test_a_server_that_never_answers_ends_the_run() -> None:
    with pytest.raises(TimeoutError):
        run_against(lambda _connection, _request: None, Expectation(204), Bounds(0.05, 10, stall_secs=0.05))
