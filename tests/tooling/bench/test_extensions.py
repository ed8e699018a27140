"""What the extensions cost is measured only where every answer is right."""

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from bench.channel import Expectation, LoadFailed
from bench.extensions import __main__ as command
from bench.extensions.bootstrap import body_bytes, long_stream
from bench.extensions.bulk_fill import send_all
from bench.extensions.listing import growth_of, pages
from bench.extensions.memory import ExtraMemory
from bench.extensions.publication import Turn, ratio
from bench.extensions.section import Section, format_sections, verdict
from bench.extensions.size import QUICK
from bench.extensions.timed_request import Line, Timing, quietest
from bench.requests import format_request
from everbrook.protocol import multipart
from tests.tooling.bench.fake_server import ACKNOWLEDGED, Answer, FakeConnection, answering

REQUEST = format_request("GET", "/ds/bench/streams")
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
Result = TypeVar("Result")


def against(answer: Answer, use: Callable[[int], Result]) -> Result:
    """Use a fake server from another thread, as what blocks has to."""

    async def run() -> Result:
        async with answering(answer) as port:
            return await asyncio.to_thread(use, port)

    return asyncio.run(run())


def exchange(port: int) -> int:
    line = Line(port)
    try:
        return line.exchange(REQUEST, bodiless=False)
    finally:
        line.close()


def test_a_whole_answer_is_read_however_it_arrives() -> None:
    def in_pieces(connection: FakeConnection, _: bytes) -> None:
        loop = asyncio.get_running_loop()
        for number, piece in enumerate((SIZED[:10], SIZED[10:40], SIZED[40:])):
            loop.call_later(number * 0.005, connection.write, piece)

    assert against(in_pieces, exchange) == 5


@pytest.mark.parametrize("answer", [b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_answer_that_is_no_page_fails_the_run(answer: bytes) -> None:
    with pytest.raises(LoadFailed, match="expected 200"):
        against(lambda connection, _: connection.write(answer), exchange)


def test_an_answer_that_is_cut_off_fails_the_run() -> None:
    def cut_off(connection: FakeConnection, _: bytes) -> None:
        connection.write(SIZED[:-1])
        connection.transport.close()

    with pytest.raises(LoadFailed, match="closed the connection"):
        against(cut_off, exchange)


def test_a_store_is_filled_with_each_request_once() -> None:
    requests = [b"PUT /ds/bench/%03d HTTP/1.1\r\n\r\n" % number for number in range(200)]
    seen: list[bytes] = []

    def acknowledge(connection: FakeConnection, request: bytes) -> None:
        seen.append(request)
        connection.write(ACKNOWLEDGED)

    against(acknowledge, lambda port: send_all(port, requests, Expectation(204)))

    assert sorted(seen) == requests


def test_a_refusal_while_a_store_is_filled_fails_the_run() -> None:
    with pytest.raises(LoadFailed, match=r"expected HTTP/1\.1 201"):
        against(
            lambda connection, _: connection.write(ACKNOWLEDGED),
            lambda port: send_all(port, [REQUEST], Expectation(201)),
        )


def test_every_page_of_every_bucket_is_full() -> None:
    assert set(pages(1_000, 1_000).values()) == {"limit=1000", "limit=1000&after=", "limit=1000&prefix=s-000"}
    assert pages(100_000, 1_000) == {
        "first page": "limit=1000",
        "middle page": "limit=1000&after=s-049499",
        "last page": "limit=1000&after=s-098999",
        "prefix": "limit=1000&prefix=s-050",
    }


def test_a_bootstrap_is_as_long_as_its_parts() -> None:
    boundary, case = b"everbrook-0", replace(long_stream(3), messages=3)
    head = multipart.next_part_head(boundary, b"application/json")
    first = multipart.part_head(boundary, b"application/octet-stream")

    body = first + (head + b"x" * case.message_bytes) * 3 + multipart.closing(boundary)

    assert body_bytes("everbrook-0", case) == len(body)


def test_extra_memory_is_the_peak_even_when_it_is_given_back() -> None:
    with ExtraMemory(os.getpid()) as memory:
        block = bytearray(os.urandom(1)) * 50_000_000
        del block

    assert 40_000_000 < memory.extra_bytes < 100_000_000


def timing(*, cpu_ms: float = 1.0, p99_ms: float = 1.0) -> Timing:
    return Timing(p50_ms=1.0, p99_ms=p99_ms, cpu_ms=cpu_ms, answers=1, payload_bytes=1)


def test_growth_is_that_of_the_cheapest_rounds() -> None:
    large = [timing(cpu_ms=value) for value in (9.0, 4.0, 7.0)]
    small = [timing(cpu_ms=value) for value in (2.0, 9.0, 3.0)]

    assert growth_of(large, small) == 2.0


def test_the_quietest_round_is_the_one_with_the_lowest_p99() -> None:
    assert quietest([timing(p99_ms=3.0), timing(p99_ms=1.0), timing(p99_ms=2.0)]).p99_ms == 1.0


def turn(p99_ms: float) -> Turn:
    return Turn("snapshot", 0, 1.0, 1.0, p99_ms, 1.0, [])


def test_publishing_is_compared_with_the_same_round_without_it() -> None:
    assert ratio([turn(2.0), turn(30.0), turn(8.0)], [turn(1.0), turn(10.0), turn(2.0)]) == 3.0


def test_an_aim_that_is_missed_stands_out() -> None:
    section = Section("Listing", ("p99 ms",), [("30",)], [verdict("Slowest p99 30 ms, aim < 20", met=False)])

    assert "Slowest p99 30 ms, aim < 20: MISSED" in format_sections([section])


def test_every_part_runs_against_a_real_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = replace(QUICK, seconds=0.02, messages=10_000, snapshot_bytes=1_500_000, appending_secs=0.1)

    assert command.main(["--quick", "--modes=memory", f"--json={tmp_path / 'results.json'}"], tiny) == 0

    sections = json.loads((tmp_path / "results.json").read_text())["sections"]
    titles = [section["title"].partition(" ")[0] for section in sections]
    assert titles == ["Listing,", "Bootstrap", "Appends", "Reads", "Decoding"]
    assert all(section["samples"] for section in sections)
    assert "that moved" in capsys.readouterr().out
