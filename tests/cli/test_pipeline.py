"""``everbrook pipeline``, as far as it needs no Spark: files are checked, and what runners told is shown."""

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest

from everbrook import Client
from everbrook.client import state_events
from tests.cli.conftest import Run

JOBS = """
[pipeline]
progress = "{progress}"
[jobs.copy]
source = {{ stream = "orders" }}
sink = {{ stream = "copy" }}
trigger = "every 5s"
"""


@pytest.fixture
def file(folder: Path, stream: str) -> str:
    (folder / "jobs.toml").write_text(JOBS.format(progress=stream))
    return "jobs.toml"


def tell(url: str, stream: str, state: str, *, secs_ago: float = 0, job_state: str = "running") -> None:
    """Say what a runner says of itself and of a job."""
    beat = (datetime.now(UTC) - timedelta(seconds=secs_ago)).isoformat()
    runner = {"state": state, "heartbeat_at": beat, "pid": 7, "host": "h"}
    job = {"job": "copy", "what": "…", "state": job_state, "batch": 3, "rows": 5, "lag_bytes": 2500, "restarts": 1}
    with Client(url) as client:
        client.stream(stream).create()
        client.stream(stream).append(state_events.upsert("job", "copy", {**job, "rows_per_second": 2.0, "error": None}))
        client.stream(stream).append(state_events.upsert("runner", "runner", runner))


def test_check_says_what_jobs_are(run: Run, file: str, folder: Path) -> None:
    assert run("pipeline", "check", file).out.splitlines()[1].split("  ") == [
        "copy",
        "stream orders → stream copy",
        "every 5s",
    ]
    assert json.loads(run("pipeline", "check", file, "--json").out) == {
        "job": "copy",
        "source": "stream orders",
        "sink": "stream copy",
        "trigger": "every 5s",
        "checkpoint": str(folder.resolve() / "checkpoints" / "copy"),
    }


@pytest.mark.parametrize("command", [("check",), ("status",), ("run",), ("reset", "copy")])
def test_a_file_that_is_wrong_is_one_line_and_exit_code_2(run: Run, folder: Path, command: tuple[str, ...]) -> None:
    (folder / "jobs.toml").write_text("[jobs.copy]\nsorce = 1")
    ran = run("pipeline", command[0], "jobs.toml", *command[1:])
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "everbrook: jobs.toml: jobs.copy.sorce: there is no such key; did you mean source?\n"


def test_a_job_that_is_not_in_the_file_is_exit_code_3(run: Run, file: str) -> None:
    for line in (("run", file, "--job", "cop"), ("reset", file, "cop", "--yes")):
        ran = run("pipeline", *line)
        assert (ran.code, ran.err) == (3, "everbrook: jobs.toml has no job 'cop'; did you mean copy?\n")


def test_a_job_is_not_reset_without_a_yes(run: Run, file: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("n\n"))
    (folder / "checkpoints" / "copy").mkdir(parents=True)
    assert run("pipeline", "reset", file, "copy").code == 130
    assert (folder / "checkpoints" / "copy").exists()
    assert run("pipeline", "reset", file, "copy", "--yes").out.startswith("dropped checkpoint ")
    assert not (folder / "checkpoints" / "copy").exists()


def test_the_status_of_what_never_ran_is_exit_code_3(run: Run, url: str, file: str) -> None:
    ran = run("pipeline", "status", file)
    assert (ran.code, "`everbrook pipeline run` has not run it yet" in ran.err) == (3, True)


def test_status_shows_what_a_runner_tells(run: Run, url: str, file: str, stream: str) -> None:
    tell(url, stream, "running")
    ran = run("pipeline", "status", file)
    assert ran.code == 0
    assert ran.out.splitlines()[2].split() == ["copy", "running", "3", "5", "2", "2.5", "kB", "1"]


def test_a_runner_that_is_silent_is_gone_and_so_are_its_jobs(run: Run, url: str, file: str, stream: str) -> None:
    tell(url, stream, "running", secs_ago=60)
    told = json.loads((ran := run("pipeline", "status", file, "--json")).out)
    assert (ran.code, told["runner"], told["jobs"][0]["state"]) == (1, "gone", "gone")


def test_a_job_that_was_given_up_is_exit_code_1(run: Run, url: str, file: str, stream: str) -> None:
    tell(url, stream, "running", job_state="failed")
    told = json.loads((ran := run("pipeline", "status", file, "--json")).out)
    assert (ran.code, told["runner"], told["jobs"][0]["state"]) == (1, "running", "failed")


def test_a_runner_that_has_stopped_says_so(run: Run, url: str, file: str, stream: str) -> None:
    tell(url, stream, "stopped", secs_ago=3600, job_state="done")
    told = json.loads((ran := run("pipeline", "status", file, "--json")).out)
    assert (ran.code, told["runner"], told["jobs"][0]["state"]) == (1, "stopped", "done")
