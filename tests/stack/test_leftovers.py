"""What a killed stack has left is ended before the next start, and nothing else is."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from everbrook.stack.leftovers import Processes


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


def test_a_process_that_was_left_is_ended(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    Processes(tmp_path).started(sleeper.pid)
    assert Processes(tmp_path).end_leftovers() == [sleeper.pid]
    assert not psutil.pid_exists(sleeper.pid)


def test_a_process_that_has_only_the_number_is_left_alone(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    born = psutil.Process(sleeper.pid).create_time()
    (tmp_path / "processes.json").write_text(json.dumps({str(sleeper.pid): born - 1000}))
    assert Processes(tmp_path).end_leftovers() == []
    assert sleeper.poll() is None


def test_a_process_that_has_ended_is_forgotten(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    processes = Processes(tmp_path)
    processes.started(sleeper.pid)
    processes.ended(sleeper.pid)
    assert Processes(tmp_path).end_leftovers() == []


@pytest.mark.parametrize("text", ["", "[1]", '{"x": 1}', '{"999999999": 1.5}'])
def test_a_damaged_or_old_file_ends_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "processes.json").write_text(text)
    assert Processes(tmp_path).end_leftovers() == []
