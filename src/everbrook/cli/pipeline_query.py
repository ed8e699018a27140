"""``everbrook pipeline query``: SQL over the tables that jobs of a file write to the lake."""

import csv
import sys
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from everbrook.cli.output import align, json_option

if TYPE_CHECKING:
    from everbrook.spark.lake.querying import Answer

_MEASURED = 1000
"""So many rows are looked at to find how wide columns are; a table is printed in parts of that size."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.argument("sql", metavar="SQL")
@click.option(
    "--engine", type=click.Choice(["duckdb", "spark"]), default="duckdb", show_default=True, help="Who answers."
)
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with a line of names.")
def query(file: Path, sql: str, *, engine: str, as_json: bool, as_csv: bool) -> None:
    """Answer SQL over the tables of the lake that jobs of FILE write.

    A table is called like its job, and like its folder: SELECT count(*) FROM "session-events". What was put aside is
    in a table of that name with _dead_letters behind it.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv are two ways to print: give one of them")
    # Imported here: other commands need no pyarrow.
    from everbrook.cli.pipeline_log import own_stderr  # noqa: PLC0415
    from everbrook.spark.jobs.loading import load  # noqa: PLC0415
    from everbrook.spark.lake.querying import ask_duckdb, ask_spark  # noqa: PLC0415

    pipeline = load(file)
    if engine == "duckdb":
        with ask_duckdb(pipeline, sql) as answer:
            _print(answer, as_json=as_json, as_csv=as_csv)
        return
    with own_stderr(pipeline.checkpoints), ask_spark(pipeline, sql) as answer:
        _print(answer, as_json=as_json, as_csv=as_csv)


def _print(answer: "Answer", *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        from everbrook.spark.lake.querying import encode  # noqa: PLC0415

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
    """Write what would move the cursor of a terminal as JSON does."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _text(value: Any) -> str:  # noqa: ANN401 - whatever an engine gives
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    from everbrook.spark.lake.querying import encode  # noqa: PLC0415

    return encode(value).strip('"')
