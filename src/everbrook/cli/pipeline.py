"""``everbrook pipeline``: jobs of a file are checked, run, looked at, and begun anew."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from everbrook.cli.exits import REFUSED
from everbrook.cli.output import align, json_option, print_json
from everbrook.cli.pipeline_query import query

if TYPE_CHECKING:
    from everbrook.spark.jobs.job import Job, Pipeline

file_argument = click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
TITLES = ("job", "state", "batch", "rows", "rows/s", "lag", "restarts", "last error")
_NUMBERS = frozenset(range(2, 7))


@click.group()
def pipeline() -> None:
    """Run jobs between streams and tables, from a file that describes them."""


pipeline.add_command(query)


@pipeline.command()
@file_argument
@click.option("--job", "names", multiple=True, metavar="JOB", help="Run this job only. May be given several times.")
@json_option
def run(file: Path, names: tuple[str, ...], *, as_json: bool) -> int:
    """Run the jobs of FILE until they are done, or until SIGINT or SIGTERM.

    A job that fails is started again; the others go on. The first signal lets each job finish its batch, a second
    one ends everything at once.
    """
    # Imported here: whoever checks a file need not have Spark.
    from everbrook.cli.pipeline_run import run_pipeline  # noqa: PLC0415

    found = _load(file)
    return run_pipeline(found, _chosen(found, names), as_json=as_json)


@pipeline.command()
@file_argument
@json_option
def check(file: Path, *, as_json: bool) -> None:
    """Read FILE, and say what its jobs are, or what is wrong with it. Nothing is connected to."""
    jobs = _load(file).jobs.values()
    if as_json:
        for job in jobs:
            print_json(_facts(job))
    else:
        rows = [(job.name, job.describe(), _trigger(job)) for job in jobs]
        click.echo("\n".join(align([("job", "what", "trigger"), *rows])))


@pipeline.command()
@file_argument
@json_option
def status(file: Path, *, as_json: bool) -> int:
    """Say what the jobs of FILE do. Exit code 1 if nobody runs them, or if one was given up."""
    from everbrook.spark.jobs.status import read_status  # noqa: PLC0415 - asks a server

    found = read_status(_load(file))
    if as_json:
        runner = {"runner": found.runner, "pid": found.pid, "host": found.host, "heartbeat_at": found.heartbeat_at}
        print_json({**runner, "jobs": found.jobs})
    else:
        click.echo(
            f"runner: {found.runner}, process {found.pid} of {found.host}, last heard of at {found.heartbeat_at}"
        )
        click.echo("\n".join(align([TITLES, *map(_row, found.jobs)], _NUMBERS)))
    return 0 if found.well else REFUSED


@pipeline.command()
@file_argument
@click.argument("name", metavar="JOB")
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@json_option
def reset(file: Path, name: str, *, yes: bool, as_json: bool) -> None:
    """Let JOB begin anew: drop its checkpoint, its positions, its slot and its publication.

    What it has written stays; it reads everything again, and writes it again. Refused while the jobs of FILE run.
    """
    from everbrook.spark.jobs.resetting import reset as reset_job  # noqa: PLC0415 - may need Postgres

    found = _load(file)
    job = _chosen(found, (name,))[name]
    if not yes:
        words = f"Forget how far {name} ({job.describe()}) has come? It will write again what it has written"
        click.confirm(words, abort=True, err=True)
    dropped = reset_job(found, job)
    if as_json:
        print_json({"job": name, "dropped": dropped})
    else:
        click.echo("\n".join(f"dropped {each}" for each in dropped) or f"{name} has not run yet: nothing to drop")


def _load(file: Path) -> "Pipeline":
    from everbrook.spark.jobs.loading import load  # noqa: PLC0415 - other commands need no msgspec

    return load(file)


def _chosen(found: "Pipeline", names: tuple[str, ...]) -> "dict[str, Job]":
    from everbrook.spark.jobs.loading import choose  # noqa: PLC0415

    return choose(found, names)


def _trigger(job: "Job") -> str:
    from everbrook.spark.jobs.triggers import format_trigger  # noqa: PLC0415

    return format_trigger(job.trigger)


def _facts(job: "Job") -> dict[str, object]:
    sides = {"source": job.source.describe(), "sink": job.sink.describe()}
    return {"job": job.name, **sides, "trigger": _trigger(job), "checkpoint": str(job.checkpoint)}


def _row(job: dict[str, Any]) -> tuple[str, ...]:
    from everbrook.cli.pipeline_log import format_bytes  # noqa: PLC0415

    lag = job.get("lag_bytes")
    return (
        job["job"],
        job["state"],
        "-" if job.get("batch") is None else str(job["batch"]),
        str(job.get("rows", "-")),
        f"{job.get('rows_per_second', 0):.0f}",
        "-" if lag is None else format_bytes(lag),
        str(job.get("restarts", "-")),
        job.get("error") or "",
    )
