"""``everbrook check`` and ``everbrook repair``: verify every byte of a store, and repair damage."""

import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everbrook.cli.exits import REFUSED
from everbrook.cli.terminal.output import json_option, note, print_json

if TYPE_CHECKING:
    from everbrook.storage.check import DamagedStream, Progress, Repair, Report

MOST_DAMAGES = 100


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@json_option
def check(folder: Path, *, as_json: bool) -> int:
    """Read every byte of the store in DIR, a data folder that no server uses, and verify the checksums.

    Exit code 0: every byte verifies. 1: something is damaged or could not be checked; `everbrook repair` repairs what
    can be repaired. With --json each store is an object in a line.
    """
    # Imported here: the other commands need no storage.
    from everbrook.storage.check import check_store, find_stores
    from everbrook.storage.manifest import StoreError

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
    return 0 if all(report.sound for report in reports) else REFUSED


@contextmanager
def progress_bar(label: str) -> "Iterator[Progress]":
    """Show a progress bar, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _read_bytes, _total_bytes: None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr) as bar:

        def progress(read_bytes: int, total_bytes: int) -> None:
            bar.length = total_bytes
            bar.update(max(0, min(read_bytes, total_bytes) - bar.pos))

        yield progress


def facts_of(report: "Report") -> dict[str, object]:
    """Return the findings of a check as JSON keys."""
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
    """Write the findings of a check. The damage comes last, next to the prompt, and at most `most_damages` of it."""
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
    yield f"  {consequence_of(report)}; `everbrook repair {report.folder}` shows the losses, and repairs the rest"


def consequence_of(report: "Report") -> str:
    """Describe how a server treats the damaged store."""
    if report.refusals:
        return report.refusals[0].text
    if report.streams:
        count = len(report.streams)
        return f"damaged streams: {count}; a server reads them up to the damage and refuses appends to them"
    return "a server starts on it"


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--drop", is_flag=True, help="Delete damaged streams instead of cutting them before the damage.")
@json_option
def repair(folder: Path, *, yes: bool, drop: bool, as_json: bool) -> int:
    """Show the losses of the store in DIR, a data folder that no server uses; ask, and repair the rest.

    A damaged stream keeps the messages before the damage and gets a new incarnation, so that its readers and producers
    start over. Damaged bytes are moved to lost+found/ in DIR. Copy DIR first, if there is room. After an interruption,
    run the repair again.

    Exit code 0: every byte verifies. 1: not repaired, or only in part. With --json each store is an object in a line.
    """
    # Imported here: the other commands need no storage.
    from everbrook.storage.check import Repair, find_stores
    from everbrook.storage.disk import boot_id
    from everbrook.storage.manifest import StoreError

    code = 0
    try:
        for store in find_stores(folder):
            repairing = Repair(store, now=int(time.time() * 1000), salt=secrets.randbits(63), boot=boot_id())
            try:
                code = max(code, _repair(repairing, store, yes=yes, drop=drop, as_json=as_json))
            finally:
                repairing.close()
    except (OSError, StoreError) as error:
        raise click.ClickException(str(error)) from error
    return code


def _repair(repairing: "Repair", store: Path, *, yes: bool, drop: bool, as_json: bool) -> int:
    with progress_bar(f"checking {store}") as progress:
        report = repairing.check(progress)
    if report.sound:
        _show(report, [], as_json=as_json)
        return 0
    for line in (*format_damage(report), *format_plan(report, drop=drop)):
        click.echo(line, err=True)
    if not yes and not click.confirm("Repair it?", err=True):
        note(f"{store} is unchanged")
        return REFUSED
    done: list[str] = []
    with progress_bar(f"repairing {store}") as progress:
        for line in repairing.run(report, progress, drop=drop):
            done.append(line)
            if not as_json:
                click.echo(f"  {line}")
        report = repairing.check(progress)
    _show(report, done, as_json=as_json)
    return 0 if report.sound else REFUSED


def _show(report: "Report", done: list[str], *, as_json: bool) -> None:
    if as_json:
        damages = [str(damage) for damage in report.damages]
        facts = {"folder": str(report.folder), "mode": report.mode, "sound": report.sound}
        print_json({**facts, "done": done, "damages": damages})
    else:
        click.echo("\n".join(format_report(report)))


def format_damage(report: "Report") -> "Iterator[str]":
    """Print the damage as `everbrook check` does."""
    return (line for line in format_report(report) if "everbrook repair" not in line)


def format_plan(report: "Report", *, drop: bool) -> "Iterator[str]":
    """Describe what a repair will lose."""
    from everbrook.protocol.errors import quoted

    if not report.base_readable:
        yield from _rebuild_plan(report)
        return
    for refusal in report.refusals:
        yield f"  {refusal.text}; a repair keeps the rest"
    for stream in report.streams.values():
        which = f"stream {stream.incarnation:016x}" if stream.name is None else f"stream {quoted(stream.name)}"
        if stream.tail is None:
            yield f"  {which} will be set aside: what it was is not known"
        elif drop:
            yield f"  {which} will be deleted"
        else:
            lost_bytes = stream.tail - stream.offset
            lost = f"{lost_bytes} bytes, those from offset {stream.offset} on" if lost_bytes > 0 else "its last changes"
            yield f"  {which} will lose {lost}, and its producers; it gets a new incarnation"


def _rebuild_plan(report: "Report") -> "Iterator[str]":
    from everbrook.storage.check import is_copyable

    if is_copyable(report.folder):
        yield "  LMDB can't read the base, but every row is there: a repair copies them to a new file"
    elif report.mode == "acid":
        yield "  the base can't be read: a repair restores the streams that the journal has, and nothing else;"
        yield "  if there is a backup, restore that instead"
    else:
        yield "  the base can't be read: a repair restores streams from their segments and from the journal;"
        yield "  producers, closure, expiry, snapshots, and the last bytes of streams that the base had, will be lost"
