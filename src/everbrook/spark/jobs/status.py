"""The status of a pipeline, as its runner has told it last, and whether there still is a runner.

A runner says every few seconds that it is there. Whoever has not said so for a while is gone, whatever it said last.
"""

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from everbrook.protocol.errors import NotFound
from everbrook.spark.connection import connect
from everbrook.spark.jobs.errors import PipelineMissing
from everbrook.spark.jobs.job import Pipeline
from everbrook.spark.jobs.running import server_options

RUNNING, STOPPED, GONE = "running", "stopped", "gone"
STALE_SECS = 20.0
_ACTIVE = {"starting", "waiting", "running", "restarting", "stopping"}


class Status(Struct, frozen=True):
    """What is known of a pipeline."""

    runner: str
    """`running`, `stopped`, or `gone` if it has not been heard of for too long."""
    heartbeat_at: str
    pid: int
    host: str
    jobs: list[dict[str, Any]]

    @property
    def well(self) -> bool:
        """Tell whether somebody runs the jobs, and none of them was given up."""
        return self.runner == RUNNING and all(job["state"] != "failed" for job in self.jobs)


def read_status(pipeline: Pipeline, at: datetime | None = None) -> Status:
    """Read what the runner of a pipeline has told."""
    name = pipeline.keys.progress
    if not name:
        raise PipelineMissing(f'{pipeline.file}: progress is "", so its jobs report nothing')
    stream = connect(server_options(pipeline)).stream(name)
    try:
        with stream.materialise(on_invalid=lambda _error: None) as state:
            runner, jobs = dict(state["runner"]).get("runner"), dict(state["job"])
    except NotFound:
        runner, jobs = None, {}
    if runner is None:
        raise PipelineMissing(f"nothing is known of {pipeline.file}: `everbrook pipeline run` has not run it yet")
    return _status(pipeline, runner, jobs, at or datetime.now(UTC))


def _status(pipeline: Pipeline, runner: dict[str, Any], jobs: dict[str, Any], at: datetime) -> Status:
    silent_secs = (at - datetime.fromisoformat(runner["heartbeat_at"])).total_seconds()
    word = GONE if runner["state"] == RUNNING and silent_secs > STALE_SECS else runner["state"]
    found = [_job(jobs.get(name), name, job.describe(), word) for name, job in pipeline.jobs.items()]
    return Status(word, runner["heartbeat_at"], runner["pid"], runner["host"], found)


def _job(told: dict[str, Any] | None, name: str, what: str, runner: str) -> dict[str, Any]:
    """Give what was told of a job. What it did when its runner went is not what it does now."""
    if told is None:
        return {"job": name, "what": what, "state": "unknown"}
    if runner != RUNNING and told["state"] in _ACTIVE:
        return {**told, "state": runner, "rows_per_second": 0.0}
    return told
