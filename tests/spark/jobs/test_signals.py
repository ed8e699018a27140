"""Signals while Spark is still about to start."""

import signal
import time
from pathlib import Path

import pytest

from tests.kit.ports import free_port
from tests.spark.jobs.pipelines import PipelineProcess, running


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline whose server does not answer."""
    path, server = tmp_path / "jobs.toml", f"[server]\nurl = 'http://127.0.0.1:{free_port()}'\n"
    path.write_text(f"{server}[jobs.copy]\nsource = {{ stream = 'a' }}\nsink = {{ stream = 'b' }}\n")
    return path


def wait_for_jvm(pipeline: PipelineProcess) -> int:
    deadline = time.monotonic() + 60
    while (pid := pipeline.jvm()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return pid


def test_a_second_signal_ends_everything_at_once(file: Path) -> None:
    with running(file) as pipeline:
        pipeline.wait_for_state("copy", "waiting")
        jvm = wait_for_jvm(pipeline)
        pipeline.process.send_signal(signal.SIGTERM)
        pipeline.wait_for(lambda event: event["event"] == "stopping")
        assert pipeline.stop() == 128 + signal.SIGTERM
    deadline = time.monotonic() + 60
    while Path(f"/proc/{jvm}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(f"/proc/{jvm}").exists()


def test_whoever_waits_for_a_server_can_be_stopped(file: Path) -> None:
    with running(file) as pipeline:
        pipeline.wait_for_state("copy", "waiting")
        assert pipeline.stop(signal.SIGINT) == 0
        assert {event["event"] for event in pipeline.events[-3:]} == {"stopping", "state", "ended"}
