"""``everbrook check``: read a whole store, and say whether every byte verifies."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everbrook.cli.output import json_option, print_json

if TYPE_CHECKING:
    from everbrook.storage.check import DamagedStream, Progress, Report

DAMAGED = 1
MOST_DAMAGES = 100


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@json_option
def check(folder: Path, *, as_json: bool) -> int:
    """Read every byte of the store in DIR, a data folder that no server uses, and say whether it verifies.

    Exit code 0: it does. 1: something is damaged, or could not be checked; `everbrook repair` mends what it can. With
    --json each store is an object in a line.
    """
    # Imported here: the other commands need no storage.
    from everbrook.storage.check import check_store, find_stores  # noqa: PLC0415
    from everbrook.storage.manifest import StoreError  # noqa: PLC0415

    try:
        reports = []
        for store in find_stores(folder):
            with progress_bar(f"checking {store}") as progress:
                reports.append(check_store(store, progress))
            if as_json:
                print_json(facts_of(reports[-1]))
            else:
                click.echo("\n".join(format_report(reports[-1])))
    except (OSError, StoreError) as error:
        raise click.ClickException(str(error)) from error
    return 0 if all(report.sound for report in reports) else DAMAGED


@contextmanager
def progress_bar(label: str) -> "Iterator[Progress]":
    """Show how far it is, if somebody is looking."""
    if not sys.stderr.isatty():
        yield lambda _read_bytes, _total_bytes: None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr) as bar:

        def progress(read_bytes: int, total_bytes: int) -> None:
            bar.length = total_bytes
            bar.update(max(0, min(read_bytes, total_bytes) - bar.pos))

        yield progress


def facts_of(report: "Report") -> dict[str, object]:
    """Say what was found, for programs."""
    return {
        "folder": str(report.folder),
        "mode": str(report.mode),
        "sound": report.sound,
        "streams": report.tally.streams,
        "stream_bytes": report.tally.stream_bytes,
        "journal_changes": report.tally.records,
        "remarks": [remark.text for remark in report.remarks],
        "damages": [str(damage) for damage in report.damages],
        "damaged_streams": [_stream_facts(stream) for stream in report.streams.values()],
        "refusals": [refusal.text for refusal in report.refusals],
    }


def _stream_facts(stream: "DamagedStream") -> dict[str, object]:
    name = None if stream.name is None else stream.name.decode("utf-8", "backslashreplace")
    return {"stream": name, "incarnation": stream.incarnation, "readable_to": stream.offset, "tail": stream.tail}


def format_report(report: "Report", most_damages: int = MOST_DAMAGES) -> "Iterator[str]":
    """Say what was found, the damage last, where it is read, and at most `most_damages` of it."""
    tally = report.tally
    journal = f"; changes still in the journal: {tally.records}" if tally.records else ""
    yield f"{report.folder}: {report.mode}, streams: {tally.streams}, their bytes: {tally.stream_bytes}{journal}"
    yield from (f"  {remark.text}" for remark in report.remarks)
    yield from (f"  damaged: {damage}" for damage in report.damages[:most_damages])
    if len(report.damages) > most_damages:
        yield f"  and {len(report.damages) - most_damages} more"
    if report.sound:
        yield "  every byte verifies"
        return
    yield f"  damaged places: {len(report.damages)}"
    yield f"  {consequence_of(report)}; `everbrook repair {report.folder}` shows what is lost, and mends it"


def consequence_of(report: "Report") -> str:
    """Say what a server does with a damaged store."""
    if report.refusals:
        return report.refusals[0].text
    if report.streams:
        count = len(report.streams)
        return f"damaged streams: {count}; a server reads them up to the damage and refuses appends to them"
    return "a server starts on it"
