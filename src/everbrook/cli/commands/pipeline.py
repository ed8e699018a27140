"""``everbrook pipeline``: checks, runs, monitors and resets the jobs of a file."""

import csv
import sys
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from everbrook.cli.exits import REFUSED
from everbrook.cli.terminal.output import align, format_bytes, json_option, print_json

if TYPE_CHECKING:
    from everbrook.spark.jobs.model import Job, Pipeline
    from everbrook.spark.lake.sql import QueryResult

file_argument = click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
TITLES = ("job", "state", "batch", "rows", "rows/s", "lag", "restarts", "last error")
_NUMBERS = frozenset(range(2, 7))
_MEASURED = 1000
"""The number of rows that determine the width of columns. A table is printed in parts of this size."""


@click.group()
def pipeline() -> None:
    """Run jobs between streams and tables, from a file that describes them."""


@pipeline.command()
@file_argument
@click.option("--job", "names", multiple=True, metavar="JOB", help="Run this job only; repeatable.")
@json_option
def run(file: Path, names: tuple[str, ...], *, as_json: bool) -> int:
    """Run the jobs of FILE until they are done, or until SIGINT or SIGTERM.

    A job that fails is started again, and the others continue. After the first signal each job finishes its batch; a
    second signal ends everything at once.
    """
    # Imported here: checking a file does not need Spark.
    from everbrook.cli.commands.pipeline_run import run_pipeline

    found = _load(file)
    return run_pipeline(found, _chosen(found, names), as_json=as_json)


@pipeline.command()
@file_argument
@json_option
def check(file: Path, *, as_json: bool) -> None:
    """Read FILE, and describe its jobs or its errors. No connection is made."""
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
    """Print the state of the jobs of FILE. Exit code 1: nobody runs them, or a job was given up."""
    from everbrook.spark.jobs.status import read_status  # asks a server

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
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def reset(file: Path, name: str, *, yes: bool, as_json: bool) -> None:
    """Reset JOB: drop its checkpoint, its positions, its slot and its publication.

    Its output stays; the next run reads and writes everything again. Refused while the jobs of FILE run.
    """
    from everbrook.spark.jobs.runner import reset as reset_job  # may need Postgres

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
    from everbrook.spark.jobs.load import load  # other commands need no msgspec

    return load(file)


def _chosen(found: "Pipeline", names: tuple[str, ...]) -> "dict[str, Job]":
    from everbrook.spark.jobs.load import choose

    return choose(found, names)


def _trigger(job: "Job") -> str:
    from everbrook.spark.jobs.model import format_trigger

    return format_trigger(job.trigger)


def _facts(job: "Job") -> dict[str, object]:
    sides = {"source": job.source.describe(), "sink": job.sink.describe()}
    return {"job": job.name, **sides, "trigger": _trigger(job), "checkpoint": str(job.checkpoint)}


def _row(job: dict[str, Any]) -> tuple[str, ...]:
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


@pipeline.command()
@file_argument
@click.argument("sql", metavar="SQL")
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    default="duckdb",
    show_default=True,
    help="The engine that runs the query.",
)
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with a header line.")
def query(file: Path, sql: str, *, engine: str, as_json: bool, as_csv: bool) -> None:
    """Run a SQL query over the tables of the lake that the jobs of FILE write.

    A table has the name of its job, and of its folder: SELECT count(*) FROM "session-events". Dead letters are in the
    table of this name with the suffix _dead_letters.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv can't be combined: pass one of them")
    # Imported here: other commands need no pyarrow.
    from everbrook.spark.jobs.load import load
    from everbrook.spark.lake.sql import ask_duckdb, ask_spark

    pipeline = load(file)
    if engine == "duckdb":
        with ask_duckdb(pipeline, sql) as answer:
            _print(answer, as_json=as_json, as_csv=as_csv)
        return
    from everbrook.cli.commands.pipeline_run import own_stderr  # loads Spark

    with own_stderr(pipeline.checkpoints), ask_spark(pipeline, sql) as answer:
        _print(answer, as_json=as_json, as_csv=as_csv)


def _print(answer: "QueryResult", *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        from everbrook.spark.lake.sql import encode

        for row in answer.rows:
            click.echo(encode(dict(zip(answer.names, row, strict=True))))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows(chain([answer.names], (map(_text, row) for row in answer.rows)))
    else:
        _print_table(answer.names, answer.rows)


def _print_table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    rest = iter(rows)
    part = list(islice(rest, _MEASURED))
    titled = False
    while part or not titled:
        numbers = frozenset(place for place in range(len(names)) if _is_number(part, place))
        lines = [[_shown(_text(value)) for value in row] for row in part]
        click.echo("\n".join(align([*([] if titled else [names]), *lines], numbers)))
        titled, part = True, list(islice(rest, _MEASURED))


def _is_number(rows: Sequence[Sequence[Any]], place: int) -> bool:
    values = [row[place] for row in rows if row[place] is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _shown(text: str) -> str:
    """Escape control characters, which would move the cursor of a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _text(value: Any) -> str:  # noqa: ANN401 - any value of an engine
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    from everbrook.spark.lake.sql import encode

    return encode(value).strip('"')
