"""Running a pipeline from the command line: signals, what is shown, and the exit code.

A JVM that dies (it was killed, or memory ran out) leaves nothing in this process that could be used again. So the
process ends with an exit code that says "try again", and whoever supervises it starts it again.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click
from msgspec import structs

from everbrook.cli.exits import REFUSED, UNREACHABLE
from everbrook.cli.output import print_json
from everbrook.cli.pipeline_log import LOG_FILE, Shown, own_stderr, showing
from everbrook.spark.jobs.board import State
from everbrook.spark.jobs.running import Outcome, Runner

if TYPE_CHECKING:
    from everbrook.spark.jobs.board import Board, JobState
    from everbrook.spark.jobs.job import Job, Pipeline

_SETTLED = {State.RUNNING, State.DONE, State.FAILED}
_OF_EXTRAS = {
    "pyspark": "spark",
    "pyarrow": "spark",
    "pandas": "spark",
    "psycopg": "postgres",
    "prometheus_client": "stack",
}


class Announced(Protocol):
    """What is known of a run while it goes on."""

    board: "Board"
    metrics_port: int | None


def run_pipeline(pipeline: "Pipeline", jobs: "Mapping[str, Job]", *, as_json: bool) -> int:
    """Run jobs, and give the exit code. With JSON, how each job ended is printed."""
    began = time.monotonic()
    runner = Runner(pipeline, jobs)
    asked = threading.Event()
    with (
        own_stderr(pipeline.checkpoints) as out,
        showing(runner.board, out, as_json=as_json) as shown,
        _signals(runner, asked, shown),
    ):
        announce(runner, shown, began)
        outcome = _run(runner, pipeline)
        lost = outcome is Outcome.LOST and not asked.is_set()
        if lost:
            why = f"was it killed, or out of memory? see {pipeline.checkpoints / LOG_FILE}"
            shown.note("lost", f"the JVM of Spark has gone ({why}): start this again, and jobs go on where they were")
        else:
            shown.note("ended", f"ended: {outcome.value}", outcome=outcome.value)
    for state in runner.board.states() if as_json else ():
        print_json(structs.asdict(state))
    if lost:
        return UNREACHABLE
    return REFUSED if outcome is Outcome.FAILED else 0


def _run(runner: Runner, pipeline: "Pipeline") -> Outcome:
    try:
        return runner.run()
    except ModuleNotFoundError as error:
        extra = _OF_EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise click.ClickException(f"this needs {error.name}: pip install 'everbrook[{extra}]'") from error
    except Exception as error:
        if type(error).__module__.startswith("pyspark."):
            log = pipeline.checkpoints / LOG_FILE
            raise click.ClickException(f"Spark can't be started: {error}; see {log}") from error
        raise


def announce(runner: Announced, shown: Shown, began: float) -> None:
    """Say once that all jobs run, or which of them have failed instead."""
    told = threading.Event()

    def look(_before: "JobState", _after: "JobState") -> None:
        states = runner.board.states()
        if not told.is_set() and all(state.state in _SETTLED for state in states):
            told.set()
            secs = round(time.monotonic() - began, 1)
            failed = [state.job for state in states if state.state is State.FAILED]
            well = len(states) - len(failed)
            but = f"; failed: {', '.join(failed)}" if failed else ""
            words = f"{well} of {len(states)} jobs run after {secs} s{but}"
            shown.note("ready", words, seconds=secs, jobs=well, failed=failed, metrics_port=runner.metrics_port)

    runner.board.observe(look)


@contextmanager
def _signals(runner: Runner, asked: threading.Event, shown: Shown) -> Iterator[None]:
    """Stop at the first signal, and end at the second."""

    def heard(number: int, _frame: object) -> None:
        if asked.is_set():
            runner.kill()
            os._exit(128 + number)
        asked.set()
        runner.stop()
        shown.note("stopping", "stopping: each job finishes its batch; once more to end at once")

    before = {number: signal.signal(number, heard) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
