"""``everbrook repair``: show what a damaged store has lost, ask, and make the rest whole."""

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everbrook.cli.check import DAMAGED, format_report, progress_bar
from everbrook.cli.exits import REFUSED
from everbrook.cli.output import json_option, note, print_json

if TYPE_CHECKING:
    from everbrook.storage.check import Repair, Report


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@click.option("--drop", is_flag=True, help="Delete damaged streams instead of cutting them before the damage.")
@json_option
def repair(folder: Path, *, yes: bool, drop: bool, as_json: bool) -> int:
    """Show what the store in DIR, a data folder that no server uses, has lost; ask, and make the rest whole.

    A damaged stream keeps what is before the damage, and gets a new incarnation: its readers and producers begin anew.
    Damaged bytes are kept in lost+found/ in DIR. Take a copy of DIR first, if there is room for one. A repair that was
    interrupted is run again.

    Exit code 0: every byte verifies. 1: not repaired, or not all of it. With --json each store is an object in a line.
    """
    # Imported here: the other commands need no storage.
    from everbrook.storage.check import Repair, find_stores  # noqa: PLC0415
    from everbrook.storage.disk import boot_id  # noqa: PLC0415
    from everbrook.storage.manifest import StoreError  # noqa: PLC0415

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
        note(f"{store} is as it was")
        return REFUSED
    done: list[str] = []
    with progress_bar(f"repairing {store}") as progress:
        for line in repairing.run(report, progress, drop=drop):
            done.append(line)
            if not as_json:
                click.echo(f"  {line}")
        report = repairing.check(progress)
    _show(report, done, as_json=as_json)
    return 0 if report.sound else DAMAGED


def _show(report: "Report", done: list[str], *, as_json: bool) -> None:
    if as_json:
        damages = [str(damage) for damage in report.damages]
        facts = {"folder": str(report.folder), "mode": report.mode, "sound": report.sound}
        print_json({**facts, "done": done, "damages": damages})
    else:
        click.echo("\n".join(format_report(report)))


def format_damage(report: "Report") -> "Iterator[str]":
    """Say what is damaged, as `everbrook check` does."""
    return (line for line in format_report(report) if "everbrook repair" not in line)


def format_plan(report: "Report", *, drop: bool) -> "Iterator[str]":
    """Say what a repair will cost."""
    from everbrook.protocol.errors import quoted  # noqa: PLC0415

    if not report.base_readable:
        yield from _rebuild_plan(report)
        return
    for refusal in report.refusals:
        yield f"  {refusal.text}; a repair goes on with what is left"
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
    from everbrook.storage.check import is_copyable  # noqa: PLC0415

    if is_copyable(report.folder):
        yield "  LMDB can't read the base, but every row is there: a repair copies them to a new file"
    elif report.mode == "acid":
        yield "  the base can't be read: a repair restores the streams that the journal has, and nothing else;"
        yield "  if there is a backup, restore that instead"
    else:
        yield "  the base can't be read: a repair restores streams from their segments and from the journal;"
        yield "  producers, closure, expiry, snapshots, and the last bytes of streams that the base had, will be lost"
