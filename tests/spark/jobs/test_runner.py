"""A pipeline that runs: it waits, goes on, starts again, and stops, as one process that others can look at.

The tests are one story: all of them look at the same process, which takes seconds to start.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from everbrook import Client
from everbrook.cli.exits import UNREACHABLE
from tests.kit.ports import free_port
from tests.kit.server_process import serving
from tests.spark.jobs.pipelines import PipelineProcess, command, read_if_there, running, until

FILE = """
[pipeline]
metrics = "127.0.0.1:0"
[server]
url = "http://127.0.0.1:{port}"
[jobs.copy]
source = {{ stream = "orders" }}
sink = {{ stream = "copy" }}
[jobs.doomed]
source = {{ stream = "doomed" }}
sql = "SELECT upper(value) AS value, offset FROM {{source}}"
sink = {{ stream = "loud", content_type = "text/plain" }}
"""


class Story:
    """The process, its file, and the server that it waits for."""

    def __init__(self, pipeline: PipelineProcess, file: Path, client: Client) -> None:
        self.pipeline, self.file, self.client = pipeline, file, client

    def copied(self, count: int) -> list[Any]:
        return until(lambda: read_if_there(self.client, "copy"), count)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder, port = tmp_path_factory.mktemp("pipeline"), free_port()
    file = folder / "jobs.toml"
    file.write_text(FILE.format(port=port))
    with running(file) as pipeline:
        pipeline.wait_for_state("copy", "waiting")
        with serving(folder, "--port", str(port)), Client(f"http://127.0.0.1:{port}") as client:
            for name in ("orders", "doomed"):
                client.stream(name).create(data={"id": 0})
            yield Story(pipeline, file, client)


def test_a_server_that_does_not_answer_yet_is_waited_for(story: Story) -> None:
    waited = story.pipeline.wait_for_state("copy", "waiting")
    assert (waited["level"], "can't be reached: Connection refused" in waited["message"]) == ("warning", True)
    assert story.pipeline.wait_ready()["message"].startswith("2 of 2 jobs run after")


def test_what_is_in_a_stream_and_what_comes_is_copied(story: Story) -> None:
    story.client.stream("orders").append({"id": 1})
    assert story.copied(2) == [{"id": 0}, {"id": 1}]


def test_sql_says_what_becomes_of_rows(story: Story) -> None:
    assert until(lambda: read_if_there(story.client, "loud"), 1) == ['{"ID":0}']


def test_a_second_runner_is_refused(story: Story) -> None:
    ran = command("run", str(story.file))
    assert (ran.returncode, f"run already, in process {story.pipeline.process.pid}: stop it first" in ran.stderr) == (
        1,
        True,
    )


def test_a_job_is_not_reset_while_it_runs(story: Story) -> None:
    assert command("reset", str(story.file), "copy", "--yes").returncode == 1
    assert (story.file.parent / "checkpoints" / "copy" / "metadata").exists()


def test_status_and_metrics_tell_of_the_jobs(story: Story) -> None:
    until(lambda: [1] if '"rows":2' in command("status", str(story.file), "--json").stdout else [], 1)
    told = json.loads(command("status", str(story.file), "--json").stdout)
    assert (told["runner"], told["jobs"][0]["state"], told["jobs"][0]["lag_bytes"]) == ("running", "running", 0)
    port = story.pipeline.wait_ready()["metrics_port"]
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert 'everbrook_job_rows_total{job="copy"} 2.0' in answer.read().decode()


def test_a_job_that_can_not_be_helped_is_given_up_and_the_others_go_on(story: Story) -> None:
    story.client.stream("loud").delete()
    story.client.stream("doomed").append({"id": 1})
    failed = story.pipeline.wait_for_state("doomed", "failed")
    assert "'loud' was deleted while this query wrote to it" in failed["error"]
    assert "`everbrook pipeline reset FILE doomed` lets it begin anew" in failed["error"]
    story.client.stream("orders").append({"id": 2})
    assert len(story.copied(3)) == 3


def test_a_killed_jvm_ends_the_run_with_exit_code_4(story: Story) -> None:
    jvm = story.pipeline.jvm()
    assert jvm is not None
    os.kill(jvm, signal.SIGKILL)
    lost = story.pipeline.wait_for(lambda event: event["event"] == "lost")
    assert "the JVM of Spark has ended" in lost["message"]
    assert story.pipeline.ended() == UNREACHABLE


def test_the_next_run_goes_on_and_ctrl_c_stops_it_with_exit_code_0(story: Story) -> None:
    """Ctrl-C reaches all processes of a terminal: those of Spark are not among them."""
    story.client.stream("orders").extend([{"id": 3}, {"id": 4}])
    with running(story.file, "--job", "copy") as pipeline:
        assert story.copied(5) == [{"id": n} for n in range(5)]
        pipeline.wait_for_state("copy", "running")
        os.killpg(pipeline.process.pid, signal.SIGINT)
        assert pipeline.ended() == 0
        assert not any(event["event"] == "line" for event in pipeline.events)
    status = command("status", str(story.file))
    assert (status.returncode, status.stdout.splitlines()[0].split(",")[0]) == (1, "runner: stopped")


def test_a_job_that_was_reset_begins_anew(story: Story) -> None:
    ran = command("reset", str(story.file), "copy", "--yes", "--json")
    assert json.loads(ran.stdout) == {
        "job": "copy",
        "dropped": [f"checkpoint {(story.file.parent / 'checkpoints' / 'copy').resolve()}"],
    }
    assert not (story.file.parent / "checkpoints" / "copy").exists()
