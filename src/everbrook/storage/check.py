"""Checking a store that no server uses: whether every byte that should be there is what was written.

What knows a mode's files reads them in a process of its own: LMDB trusts its file, and a damaged one may take the
reader down. Then the last place that it said it was at is where the damage is.
"""

import signal
from collections.abc import Callable
from contextlib import closing
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
from msgspec import Struct

from everbrook.storage.disk import OsDisk
from everbrook.storage.manifest import FORMAT, MANIFEST, Manifest, StoreError, lock_folder, parse_manifest

SPAWN = get_context("spawn")
TELL_EVERY_BYTES = 1 << 20


class Damage(Struct, frozen=True):
    """Something stored that is not what was written, and where."""

    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


class Remark(Struct, frozen=True):
    """Something worth telling that is no damage."""

    text: str


class Position(Struct, frozen=True):
    """What is being read, and how many bytes of the store have been so far."""

    place: str
    read_bytes: int


class Tally(Struct):
    """How much there was to check."""

    streams: int = 0
    stream_bytes: int = 0
    records: int = 0

    def add(self, stream_bytes: int) -> None:
        """Count a stream."""
        self.streams += 1
        self.stream_bytes += stream_bytes


class Report(Struct):
    """What a check found."""

    folder: Path
    mode: str
    tally: Tally = msgspec.field(default_factory=Tally)
    damages: list[Damage] = []
    remarks: list[Remark] = []

    @property
    def sound(self) -> bool:
        """Whether everything verifies."""
        return not self.damages


Progress = Callable[[int, int], None]
Inspect = Callable[[Path, Manifest, Connection], None]


class Notebook:
    """What a checking process writes down for the one that waits for it."""

    def __init__(self, folder: Path, write: Callable[[object], None]) -> None:
        self._folder = folder
        self._write = write
        self._place = str(folder)
        self._read_bytes = 0
        self._told_bytes = 0
        self.tally = Tally()

    def at(self, file: Path, part: str = "") -> None:
        """Say what is read next."""
        self.look_at(file, part)
        self._write(Position(self._place, self._read_bytes))

    def look_at(self, file: Path, part: str = "") -> None:
        """Remember where we are, in what has been read already."""
        self._place = " ".join(filter(None, (str(file.relative_to(self._folder)), part)))

    def advance(self, read_bytes: int) -> None:
        """Count bytes that have been read, and tell now and then."""
        self._read_bytes += read_bytes
        if self._read_bytes - self._told_bytes >= TELL_EVERY_BYTES:
            self._told_bytes = self._read_bytes
            self._write(Position(self._place, self._read_bytes))

    def damage(self, problem: str, detail: str = "") -> None:
        """Say that something where we are is not what was written."""
        self._write(Damage(" ".join(filter(None, (self._place, detail))), problem))

    def remark(self, text: str) -> None:
        """Say something that is no damage."""
        self._write(Remark(text))


def find_stores(folder: Path) -> list[Path]:
    """Give the stores in a data folder, which may be one itself."""
    if not folder.is_dir():
        raise StoreError(f"{folder} is not a folder")
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    stores = [path for path in places if (path / MANIFEST).is_file()]
    if not stores:
        raise StoreError(f"{folder} holds no store: there is no {MANIFEST} in it, nor in a folder in it")
    return stores


def check_store(folder: Path, progress: Progress, inspect: Inspect | None = None) -> Report:
    """Read a whole store. `progress` is told how many bytes have been read, and of how many.

    `inspect` reads the store in a process of its own and sends what it finds. The default is `inspect_store`.
    """
    lock = lock_folder(OsDisk(), folder)
    try:
        return _check(folder, progress, inspect or inspect_store)
    finally:
        lock.release()


def _check(folder: Path, progress: Progress, inspect: Inspect) -> Report:
    try:
        manifest = parse_manifest((folder / MANIFEST).read_bytes())
    except msgspec.MsgspecError as error:
        return Report(folder, "unknown", damages=[Damage(MANIFEST, f"not a manifest of this version: {error}")])
    if manifest.format != FORMAT:
        raise StoreError(f"{folder} has format {manifest.format}; this version reads format {FORMAT}")
    report = Report(folder, manifest.mode)
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    place = ""
    incoming, outgoing = SPAWN.Pipe(duplex=False)
    process = SPAWN.Process(target=inspect, args=(folder, manifest, outgoing), daemon=True)
    process.start()
    outgoing.close()
    with closing(incoming):
        while (message := _receive(incoming)) is not None:
            if isinstance(message, Position):
                place = message.place
                progress(message.read_bytes, total)
            else:
                _enter(report, message)
    process.join()
    if process.exitcode:
        report.damages.append(Damage(place, f"so damaged that reading it {_ending(process.exitcode)}"))
    progress(total, total)
    return report


def _receive(incoming: Connection) -> object:
    try:
        return incoming.recv()
    except EOFError:
        return None


def _enter(report: Report, message: object) -> None:
    match message:
        case Damage():
            report.damages.append(message)
        case Remark():
            report.remarks.append(message)
        case Tally():
            report.tally = message


def _ending(code: int) -> str:
    return f"ended the reader with {signal.Signals(-code).name}" if code < 0 else f"ended the reader with code {code}"


def inspect_store(folder: Path, manifest: Manifest, outgoing: Connection) -> None:
    """Check a store of any mode, in a process of its own."""
    notebook = Notebook(folder, outgoing.send)
    match manifest.mode:
        case "acid":
            from everbrook.storage.acid.check import check_acid  # noqa: PLC0415 - only what the mode needs

            check_acid(folder, manifest.shard_count, notebook)
        case "file":
            from everbrook.storage.files.check import check_files  # noqa: PLC0415

            check_files(folder, notebook)
        case other:
            notebook.damage(f"a store of mode {other!r}, which this version does not know")
    outgoing.send(notebook.tally)
    outgoing.close()
