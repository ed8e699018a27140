"""The program as its README starts it, killed and stopped while sessions go on."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from everbrook import Client
from examples.analytics.job import Places
from examples.analytics.sessions import generate
from tests.examples.analytics.desk import Desk
from tests.examples.analytics.plain import count_plainly
from tests.kit.server_process import environment, serving

ROOT = Path(__file__).parents[3]
BEGIN = datetime.now(UTC) - timedelta(hours=2)  # who leaves does so now, in the same visit
TIMEOUT_SECS = 180
ENDINGS = (signal.SIGKILL, signal.SIGTERM)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[str]:
    """A server for the program alone, which takes the streams by their usual names."""
    with serving(tmp_path) as started:
        yield "http://{}:{}".format(*started.address)


def command(checkpoints: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "examples.analytics", "--checkpoints", str(checkpoints), *arguments]


@contextmanager
def running(checkpoints: Path, url: str, ending: signal.Signals) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program, and send it a signal at the end."""
    with subprocess.Popen(command(checkpoints), cwd=ROOT, env=environment(EVERBROOK_URL=url)) as program:
        try:
            yield program
        finally:
            program.send_signal(ending)


def until_more(client: Client, before: int) -> int:
    """Wait until more was written than before, and tell how much."""
    deadline = time.monotonic() + TIMEOUT_SECS
    while (written := _written(client)) <= before:
        assert time.monotonic() < deadline, "nothing is counted"
        time.sleep(0.2)
    return written


def _written(client: Client) -> int:
    stream = client.stream("session-analytics")
    return len(stream.read().all()) if stream.exists() else 0


@pytest.mark.long
def test_killed_and_stopped_in_between_it_counts_each_event_once(own_server: str, tmp_path: Path) -> None:
    events = generate(11, 40, BEGIN)
    size = len(events) // (len(ENDINGS) + 1)
    with Client(own_server) as client:
        desk, written = Desk(client, Places(tmp_path, own_server)), 0
        for number, ending in enumerate(ENDINGS):
            desk.play(events[number * size : (number + 1) * size])
            with running(tmp_path / "checkpoints", own_server, ending) as program:
                written = until_more(client, written)
            assert program.returncode == (-ending if ending is signal.SIGKILL else 0)
        desk.play(events[len(ENDINGS) * size :])
        once = command(tmp_path / "checkpoints", "--once")
        subprocess.run(once, cwd=ROOT, env=environment(EVERBROOK_URL=own_server), check=True, timeout=TIMEOUT_SECS)
        assert desk.counted() == count_plainly(events)
