"""What subscriptions cost is measured only where every wake arrives."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.processes import HOST, free_port
from bench.subscriptions import __main__ as command
from bench.subscriptions.receiver import Arrivals, receiving
from bench.subscriptions.scene import append_request, name_of
from bench.subscriptions.size import FULL, QUICK

WEBHOOK = b'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 29\r\n\r\n{"subscription_id":"sub-00007'
TITLES = {"Appends", "Wakes", "Starting"}


async def call(pieces: list[bytes]) -> tuple[int, bytes]:
    """Send bytes to a receiver, piece by piece; gives how many wakes it saw, and what it answered."""
    arrivals, port = Arrivals(), free_port()
    woken = arrivals.expect("sub-00007")
    async with receiving(arrivals, port):
        reader, writer = await asyncio.open_connection(HOST, port)
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0.005)
        answer = await reader.readuntil(b'{"done":true}')
        writer.close()
        assert woken.done()
    return arrivals.count, answer


@pytest.mark.parametrize("cut", [1, 40, 60])
def test_a_webhook_counts_once_it_is_whole(cut: int) -> None:
    whole = WEBHOOK.replace(b": 29", b": 31") + b'"}'

    count, answer = asyncio.run(call([whole[:cut], whole[cut:]]))

    assert count == 1
    assert answer.startswith(b"HTTP/1.1 200 OK")


def test_the_full_run_has_the_sizes_of_its_aims() -> None:
    assert (FULL.subscriptions, FULL.streams) == (10_000, 100_000)
    assert b"POST /v1/stream/bench/00042/3 " in append_request(42, 3)
    assert name_of(42) == "sub-00042"


def test_every_part_runs_against_real_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = replace(QUICK, subscriptions=20, seconds=0.05, waking_secs=0.1)

    assert command.main(["--quick", "--modes=file-fast", f"--json={tmp_path / 'results.json'}"], tiny) == 0

    sections = json.loads((tmp_path / "results.json").read_text())["sections"]
    assert {section["title"].partition(" ")[0] for section in sections} == TITLES
    assert all(section["samples"] for section in sections)
    assert "webhook at its receiver" in capsys.readouterr().out
