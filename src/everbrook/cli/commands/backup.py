"""``everbrook backup`` and ``everbrook restore``: copy a store as of one moment, and make a data folder of the copy.

The rule: a folder with the name of a backup is complete and verified. A run that fails or is killed leaves no backup;
the next run continues with the files that it has copied.
"""

import secrets
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, contextmanager
from hashlib import sha256
from importlib.metadata import version
from math import inf, isnan
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

from everbrook.cli.connection import given_token, given_url, server_options, shared_wire
from everbrook.cli.terminal.output import format_time, json_option, print_json, progress, waiting

if TYPE_CHECKING:
    from everbrook.storage.backups.backup import Manifest
    from everbrook.storage.backups.destination import Destination
    from everbrook.storage.backups.file_copy import Source
    from everbrook.storage.backups.store_copy import StoreCopy
    from everbrook.storage.check import Report

LEASE_SECS = 30
LOOK_SECS = 0.2
T = TypeVar("T")


@click.command()
@click.argument("places", metavar="[URL] DEST", nargs=-1, required=True)
@click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Copy the store in DIR, which no server may be using.",
)
@click.option(
    "--keep", metavar="N", type=click.IntRange(min=1), help="Afterwards remove all backups in DEST except the last N."
)
@click.option("--full", is_flag=True, help="Copy every byte, also those that earlier backups have.")
@click.option("--max-rate", metavar="MB", type=click.FloatRange(1, 1e6), help="Read at most MB megabytes per second.")
@click.option(
    "--check/--no-check", "checked", default=True, help="Verify the copy as `everbrook check` does.  [default: check]"
)
@json_option
@server_options
def backup(
    places: tuple[str, ...],
    data_dir: Path | None,
    keep: int | None,
    max_rate: float | None,
    *,
    full: bool,
    checked: bool,
    as_json: bool,
) -> None:
    """Copy the store of the server at URL into DEST, a folder for backups, as of one moment.

    The backup has everything that was acknowledged before. Files that the last backup in DEST has are not copied again,
    but linked. DEST/latest is the last complete backup; `everbrook restore` makes a data folder of it.
    """
    # Imported here: help needs none of it.
    from everbrook.storage.backups.backup import BackupError
    from everbrook.storage.backups.destination import Destination
    from everbrook.storage.manifest import StoreError

    if max_rate is not None and isnan(max_rate):
        raise click.UsageError("--max-rate must be a number of MB, got nan")
    url, folder = _parse_places(places, data_dir)
    began = time.monotonic()
    try:
        with closing(Destination(folder)) as destination:
            given_up = Event()
            pinning = _server(url, given_up) if data_dir is None else _still(data_dir)

            def work() -> "tuple[Pinned, StoreCopy]":
                with pinning as pinned:
                    return pinned, _copy(destination, pinned, given_up, max_rate, full=full)

            pinned, copy = run_aside(work, given_up)
            report = _check(copy) if checked else None
            manifest = _manifest(pinned, copy)
            with waiting("syncing"):
                path = destination.publish(copy, manifest)
            gone = destination.prune(keep) if keep else []
    except (BackupError, StoreError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or folder}: {error.strerror or error}") from error
    facts = _facts(path, manifest, report, gone, time.monotonic() - began)
    if as_json:
        print_json(facts)
    else:
        click.echo("\n".join(_describe(facts)))


def _parse_places(places: tuple[str, ...], data_dir: Path | None) -> tuple[str, Path]:
    match places:
        case (dest,):
            return given_url(), Path(dest)
        case (url, dest) if data_dir is None and url.startswith(("http://", "https://")):
            return url, Path(dest)
        case (url, _) if data_dir is None:
            raise click.UsageError(f"the URL of a server must begin with http:// or https://, got {url}")
        case (_, _):
            raise click.UsageError("--data-dir copies a store without its server: pass DEST alone")
        case _:
            raise click.UsageError(f"expected a URL and a folder, got {len(places)} arguments")


def _check(copy: "StoreCopy") -> "Report":
    """Check the copy as a store."""
    from everbrook.storage.backups.restore import check_copy

    with waiting("checking"):
        return check_copy(copy.target)


class Pinned(NamedTuple):
    """A store, pinned at one moment."""

    source: "Source"
    store: str
    taken_at_ms: int
    whence: str


def _server(url: str, given_up: Event) -> AbstractContextManager[Pinned]:
    """Prepare to pin the store of a server. Only the main thread knows the options of the command line."""
    from everbrook.cli.commands.backup_source import ServerSource

    source = ServerSource(url, given_token(), shared_wire(), LEASE_SECS, given_up)

    @contextmanager
    def pinning() -> Iterator[Pinned]:
        with source as server:
            yield Pinned(server, server.begun.store, server.begun.taken_at_ms, server.url)

    return pinning()


@contextmanager
def _still(data_dir: Path) -> Iterator[Pinned]:
    """Pin a store that no server uses."""
    from everbrook.storage.backups.store_copy import PinSource
    from everbrook.storage.check import find_stores
    from everbrook.storage.pin import StillStore

    stores = find_stores(data_dir)
    if len(stores) > 1:
        raise click.UsageError(f"{data_dir} holds {len(stores)} stores: name one of {', '.join(map(str, stores))}")
    still = StillStore(stores[0])
    try:
        yield Pinned(PinSource(still), still.store, time.time_ns() // 1_000_000, str(data_dir.resolve()))
    finally:
        still.release()


def _copy(
    destination: "Destination", pinned: Pinned, given_up: Event, max_rate: float | None, *, full: bool
) -> "StoreCopy":
    from everbrook.storage.backups.backup import DATA, MANIFEST, require_store
    from everbrook.storage.backups.store_copy import StoreCopy

    require_store(pinned.store)
    destination.partial.mkdir(mode=0o700, exist_ok=True)
    (destination.partial / MANIFEST).unlink(missing_ok=True)
    target = destination.partial / DATA / pinned.store
    target.mkdir(parents=True, exist_ok=True)
    previous = None if full else destination.previous()
    if previous and previous.manifest.store != pinned.store:
        previous = None
    with progress("copying") as advance:
        bytes_per_sec = max_rate * 1e6 if max_rate else inf
        copy = StoreCopy(pinned.source, target, previous, lambda size: advance("", size), given_up, bytes_per_sec)
        copy.run()
    return copy


def _manifest(pinned: Pinned, copy: "StoreCopy") -> "Manifest":
    """Describe the backup, for its manifest."""
    from everbrook.storage.backups.backup import FORMAT, Manifest

    return Manifest(
        format=FORMAT,
        store=pinned.store,
        taken_at_ms=pinned.taken_at_ms,
        source=pinned.whence,
        folders=copy.folders,
        files=len(copy.entries),
        bytes=copy.done_bytes,
        copied_bytes=copy.copied_bytes,
        list_digest=sha256(copy.listed()).hexdigest(),
        everbrook=version("everbrook"),
    )


def _facts(
    path: Path, manifest: "Manifest", report: "Report | None", gone: list[Path], secs: float
) -> dict[str, object]:
    """Return the result as JSON keys."""
    from everbrook.storage.backups.backup import format_name

    return {
        "backup": str(path),
        "store": manifest.store,
        "taken_at": format_time(manifest.taken_at_ms),
        "clock_set_back": not path.name.startswith(format_name(manifest.taken_at_ms)),
        "files": manifest.files,
        "bytes": manifest.bytes,
        "copied_bytes": manifest.copied_bytes,
        "streams": report.tally.streams if report else None,
        "stream_bytes": report.tally.stream_bytes if report else None,
        "checked": report is not None,
        "removed": [str(each) for each in gone],
        "secs": round(secs, 3),
    }


def _describe(facts: dict[str, object]) -> "Iterator[str]":
    yield f"{facts['backup']}: {facts['store']} as of {facts['taken_at']}"
    yield f"  files: {facts['files']}, bytes: {facts['bytes']}, of which copied: {facts['copied_bytes']}"
    if facts["clock_set_back"]:
        yield "  a clock was set back: an earlier backup has a later time, so this one has the next name after it"
    if facts["checked"]:
        yield f"  every byte verifies; streams: {facts['streams']}, their bytes: {facts['stream_bytes']}"
    removed = facts["removed"]
    if isinstance(removed, list):
        yield from (f"  removed {path}" for path in removed)


@click.command()
@click.argument("source", metavar="DEST", type=click.Path(path_type=Path))
@click.argument("data_dir", metavar="DATA_DIR", type=click.Path(path_type=Path))
@click.option("--at", metavar="TIME", help="Restore the last backup made until then, such as 20261116T04.")
@json_option
def restore(source: Path, data_dir: Path, at: str | None, *, as_json: bool) -> None:
    """Make the data folder DATA_DIR, which must be new or empty, from the last backup in DEST.

    DEST is the folder of `everbrook backup`, or one of the backups in it. Every byte is verified; if one differs from
    the copied byte, DATA_DIR is not made.
    """
    # Imported here: help needs none of it.
    from everbrook.storage.backups.backup import BackupError, choose_backup
    from everbrook.storage.backups.restore import restore as restore_backup
    from everbrook.storage.manifest import StoreError

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
        click.echo("\n".join(_describe_restored(facts)))


def _describe_restored(facts: dict[str, object]) -> Iterator[str]:
    data_dir, mode = facts["data_dir"], "acid" if facts["store"] == "acid" else "file-durable"
    yield f"{data_dir}: {facts['store']} as of {facts['taken_at']}, from {facts['backup']}"
    yield f"  every byte verifies; streams: {facts['streams']}, their bytes: {facts['stream_bytes']}"
    yield f"  everbrook serve --storage {mode} --data-dir {data_dir}"


def run_aside(work: Callable[[], T], given_up: Event) -> T:
    """Run work in a thread. An interrupt cancels it and waits for its end; a second one ends the process."""
    outcome: Future[T] = Future()
    # An interrupted `Thread.join` of Python before 3.13 takes the thread for ended. A lock has no such gap.
    running = Lock()

    def wait() -> None:
        # A signal wakes no thread that is only about to wait, and its handler runs when the wait is over. One that
        # comes right behind `acquire` leaves the lock taken: the outcome tells the end of the work, not the lock.
        while not outcome.done():
            running.acquire(timeout=LOOK_SECS)

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            outcome.set_exception(error)
        finally:
            running.release()

    thread = Thread(target=run, name="everbrook-work", daemon=True)
    running.acquire()
    try:
        thread.start()
        wait()
    except KeyboardInterrupt:
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)
        given_up.set()
        # The thread does not run if the interrupt came during its start.
        if thread.is_alive():
            wait()
        signal.signal(signal.SIGINT, before)
        raise
    return outcome.result()
