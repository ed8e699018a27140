"""The board of jobs, its lock on disk, and its metrics."""

import io
import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from urllib.request import urlopen

import pytest

from everbrook.cli.commands.pipeline_run import announce, showing
from everbrook.spark.jobs.engine import JobListener
from everbrook.spark.jobs.metrics import Metrics
from everbrook.spark.jobs.model import PipelineBusy
from everbrook.spark.jobs.runner import locked
from everbrook.spark.jobs.status import Board, JobState, State


def test_whoever_observes_a_board_sees_what_was_and_what_is() -> None:
    board, seen = Board([("copy", "a → b")]), list[tuple[State, State]]()
    board.observe(lambda before, after: seen.append((before.state, after.state)))
    board.change("copy", state=State.RUNNING)
    assert seen == [(State.STARTING, State.RUNNING)]


def test_the_time_of_a_state_is_that_of_its_beginning() -> None:
    board = Board([("copy", "a → b")])
    board.change("copy", state=State.RUNNING)
    since = board["copy"].since
    board.change("copy", state=State.RUNNING, batch=2)
    assert (board["copy"].since, board["copy"].batch) == (since, 2)


def test_a_job_that_has_failed_is_named_when_the_others_are_ready() -> None:
    runner, out = (
        SimpleNamespace(board=Board([("copy", "a → b"), ("items", "c → d")]), metrics_port=None),
        io.StringIO(),
    )
    with showing(runner.board, out) as shown:
        announce(runner, shown, time.monotonic())
        runner.board.change("items", state=State.FAILED, error="no such table")
        runner.board.change("copy", state=State.RUNNING)
    ready = json.loads(out.getvalue().splitlines()[-1])
    assert (ready["event"], ready["jobs"], ready["failed"]) == ("ready", 1, ["items"])
    assert ready["message"].endswith("; failed: items")


def test_what_is_counted_adds_up() -> None:
    board = Board([("copy", "a → b")])
    board.add("copy", rows=2, batches=1)
    board.add("copy", rows=3, batches=1)
    assert board.states() == [JobState("copy", "a → b", since=board["copy"].since, rows=5, batches=2)]


def test_the_rows_of_a_batch_are_counted_when_the_batch_is_told() -> None:
    board = Board([("copy", "a → b")])
    seen: list[tuple[int | None, int]] = []
    board.observe(lambda _before, after: seen.append((after.batch, after.rows)))
    progress = SimpleNamespace(name="copy", numInputRows=2, batchId=7, durationMs={}, observedMetrics=None)
    JobListener(board, None).onQueryProgress(SimpleNamespace(progress=progress))
    assert [rows for batch, rows in seen if batch == 7] == [2]


def test_metrics_are_read_off_the_board() -> None:
    board = Board([("copy", "a → b")])
    metrics = Metrics(board)
    port = metrics.serve("127.0.0.1:0")
    board.add("copy", rows=5, dead_letters=1)
    board.change("copy", state=State.RUNNING, lag_bytes=7)
    metrics.observe_batch("copy", 250)
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    metrics.close()
    assert {
        'everbrook_job_rows_total{job="copy"} 5.0',
        'everbrook_job_dead_letters_total{job="copy"} 1.0',
        'everbrook_job_lag_bytes{job="copy"} 7.0',
        'everbrook_job_state{job="copy",state="running"} 1.0',
        'everbrook_job_batch_duration_seconds_bucket{job="copy",le="0.25"} 1.0',
    } <= set(lines)


def test_a_folder_is_locked_once(tmp_path: Path) -> None:
    with locked(tmp_path / "checkpoints"), pytest.raises(PipelineBusy, match="run already, in process"):
        locked(tmp_path / "checkpoints").__enter__()


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys; from everbrook.spark.jobs.runner import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=60)
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text().strip().isdigit()
