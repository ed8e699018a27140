"""``everbrook restore``: a data folder out of a backup, entirely, or none."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import click

from everbrook.cli.output import format_time, json_option, print_json
from everbrook.cli.progress import progress


@click.command()
@click.argument("source", metavar="DEST", type=click.Path(path_type=Path))
@click.argument("data_dir", metavar="DATA_DIR", type=click.Path(path_type=Path))
@click.option("--at", metavar="TIME", help="Take the last backup that is not younger, such as 20261116T04.")
@json_option
def restore(source: Path, data_dir: Path, at: str | None, *, as_json: bool) -> None:
    """Make the data folder DATA_DIR, which must be new or empty, of the last backup in DEST.

    DEST is what `everbrook backup` was given, or one of the backups in it. Every byte is verified; if one is not what
    was copied, DATA_DIR is not made.
    """
    # Imported here: help needs none of it.
    from everbrook.storage.backups.backup import BackupError, choose_backup  # noqa: PLC0415
    from everbrook.storage.backups.restore import restore as restore_backup  # noqa: PLC0415
    from everbrook.storage.manifest import StoreError  # noqa: PLC0415

    try:
        backup = choose_backup(source, at)
        with progress("restoring", backup.manifest.bytes) as advance:
            epoch = secrets.randbits(63)
            report = restore_backup(backup, data_dir.resolve(), lambda size: advance("", size), epoch=epoch)
    except (BackupError, StoreError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or data_dir}: {error.strerror or error}") from error
    manifest = backup.manifest
    facts: dict[str, object] = {
        "data_dir": str(data_dir),
        "backup": str(backup.folder),
        "store": manifest.store,
        "taken_at": format_time(manifest.taken_at_ms),
        "bytes": manifest.bytes,
        "streams": report.tally.streams,
        "stream_bytes": report.tally.stream_bytes,
    }
    if as_json:
        print_json(facts)
    else:
        click.echo("\n".join(_describe(facts)))


def _describe(facts: dict[str, object]) -> Iterator[str]:
    data_dir, mode = facts["data_dir"], "acid" if facts["store"] == "acid" else "file-durable"
    yield f"{data_dir}: {facts['store']} as of {facts['taken_at']}, from {facts['backup']}"
    yield f"  every byte verifies; streams: {facts['streams']}, their bytes: {facts['stream_bytes']}"
    yield f"  everbrook serve --storage {mode} --data-dir {data_dir}"
