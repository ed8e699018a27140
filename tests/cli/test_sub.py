"""``everbrook sub``: subscriptions, and a worker that runs a command for each batch."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.kit.server_process import EVERBROOK

PATIENCE_SECS = 60.0

pytestmark = pytest.mark.usefixtures("url")


@pytest.fixture
def jobs(run: Run, stream: str) -> str:
    """A subscription to streams below its own name."""
    run("create", f"wake-{stream}")
    ran = run("sub", "create", stream, "--pattern", f"{stream}/**", "--wake-stream", f"wake-{stream}")
    assert ran.out == f"subscribed {stream}\n", ran.err
    return stream


@contextmanager
def working(*line: str) -> "Iterator[subprocess.Popen[str]]":
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [EVERBROOK, "sub", "work", *line], stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def eventually(path: Path, text: str) -> None:
    until = time.monotonic() + PATIENCE_SECS
    while time.monotonic() < until and not (path.exists() and path.read_text() == text):
        time.sleep(0.05)
    assert path.read_text() == text


def test_a_subscription_is_shown_with_its_streams(run: Run, jobs: str) -> None:
    run("create", f"{jobs}/1")
    told = json.loads(run("sub", "show", jobs, "--json").out)
    assert (told["type"], told["pattern"], told["wake_stream"]) == ("pull-wake", f"{jobs}/**", f"wake-{jobs}")
    assert [stream["path"] for stream in told["streams"]] == [f"{jobs}/1"]
    assert f"{jobs}/1" in run("sub", "show", jobs).out


def test_streams_are_linked_and_taken_back(run: Run, jobs: str) -> None:
    run("create", f"other-{jobs}")
    assert run("sub", "add", jobs, f"other-{jobs}").code == 0
    linked = json.loads(run("sub", "show", jobs, "--json").out)["streams"]
    assert json.loads(run("sub", "remove", jobs, f"other-{jobs}", "--json").out)["removed"] == [f"other-{jobs}"]
    assert [stream["path"] for stream in linked] == [f"other-{jobs}"]
    assert json.loads(run("sub", "show", jobs, "--json").out)["streams"] == []


def test_a_subscription_is_deleted(run: Run, jobs: str) -> None:
    assert json.loads(run("sub", "rm", jobs, "--json").out) == {"id": jobs, "deleted": True}
    assert run("sub", "show", jobs).code == 3


def test_a_worker_runs_a_command_for_each_batch(run: Run, jobs: str, folder: Path) -> None:
    with working(jobs, "--", "sh", "-c", 'echo "$EVERBROOK_STREAM $EVERBROOK_OFFSET" >> out; cat >> out') as process:
        time.sleep(1)
        run("create", f"{jobs}/1")
        run("append", f"{jobs}/1", '{"n": 1}', "2")
        eventually(folder / "out", f'{jobs}/1 -1\n{{"n": 1}}\n2\n')
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECS) == 0
    assert json.loads(run("sub", "show", jobs, "--json").out)["streams"][0]["acked_offset"] == "0000000000000011"


def test_a_batch_whose_command_fails_comes_again(run: Run, jobs: str, folder: Path) -> None:
    script = "cat >> out; test $(wc -l < out) -ge 2"
    with working(jobs, "--", "sh", "-c", script) as process:
        time.sleep(1)
        run("create", f"{jobs}/1")
        run("append", f"{jobs}/1", "1")
        eventually(folder / "out", "1\n1\n")
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_SECS)
        assert process.stderr is not None
        complaints = process.stderr.read()
    assert "sh ended with exit code 1" in complaints
    assert "Traceback" not in complaints


def test_an_interrupted_worker_is_exit_code_130(jobs: str) -> None:
    with working(jobs, "--", "cat") as process:
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECS) == 130
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_an_interrupt_that_stops_the_command_too_is_exit_code_130_and_silence(
    run: Run, jobs: str, folder: Path
) -> None:
    """A terminal sends Ctrl-C to both."""
    run("create", f"{jobs}/1")
    run("append", f"{jobs}/1", "1")
    with working(jobs, "--", "sh", "-c", "echo begun > out; exec sleep 60") as process:
        eventually(folder / "out", "begun\n")
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE_SECS) == 130
        assert process.stderr is not None
        assert process.stderr.read().strip() == ""


@pytest.mark.parametrize(
    "line, code, words",
    [
        (("create", "x", "--pattern", "*"), 2, "pass either --webhook, or --wake-stream"),
        (("create", "x", "--wake-stream", "w"), 2, "the streams are missing: pass --pattern, --stream, or both"),
        (("create", "x", "--pattern", "*", "--webhook", "http://10.0.0.1/"), 1, "http"),
        (("show", "nothing"), 3, "`everbrook sub create` makes one"),
        (("rm", "nothing", "--bucket", "nobucket"), 3, "nobucket"),
        (("work", "nothing", "--", "cat"), 3, "`everbrook sub create` makes one"),
        (("work", "nothing"), 2, "COMMAND"),
        (("add", "nothing"), 2, "STREAM"),
    ],
)
def test_what_goes_wrong_is_one_line(run: Run, line: tuple[str, ...], code: int, words: str) -> None:
    ran = run("sub", *line)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert words in ran.err
