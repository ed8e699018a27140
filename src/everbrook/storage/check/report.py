"""The report of a check: the bytes of a store that are missing or differ from those that were written.

A separate process reads the store, because a damaged file of LMDB may end its reader. If that happens, the damage is at
the last place that the process has reported.
"""

import signal
from collections.abc import Callable
from contextlib import closing
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from everbrook.protocol.errors import quoted
from everbrook.protocol.state import Head
from everbrook.storage.base_rows import DATA
from everbrook.storage.base_state import parse_opened
from everbrook.storage.check.base_walk import walk_base
from everbrook.storage.damage import Damage
from everbrook.storage.disk import OsDisk, boot_id
from everbrook.storage.journal_scan import read_journal
from everbrook.storage.lmdb_base import LmdbBase, open_base
from everbrook.storage.manifest import (
    BASE,
    JOURNAL,
    MANIFEST,
    REBUILT,
    StoreError,
    find_manifest,
    lock_folder,
    parse_manifest_copy,
    require_kind,
)
from everbrook.storage.recovery import UNKNOWN_LOSS

SPAWN = get_context("spawn")
TELL_EVERY_BYTES = 1 << 20
BASE_UNREADABLE = f"a server does not start: {BASE}/{DATA} can't be read"


class DamagedStream(Struct, frozen=True):
    """A stream that has lost its bytes from `offset` on. `tail` is None if its row, and so all of it, is lost."""

    incarnation: int
    name: bytes | None
    offset: int
    tail: int | None
    reason: str

    @classmethod
    def of(cls, incarnation: int, head: Head | None, offset: int, reason: str) -> Self:
        name, tail = (head.identity.name, head.tail) if head else (None, None)
        return cls(incarnation, name, offset, tail, reason)

    def __str__(self) -> str:
        which = f"stream {quoted(self.name)}" if self.name is not None else f"stream {self.incarnation:016x}"
        if self.tail is None:
            return f"{which} is lost: {self.reason}"
        return f"{which} is readable up to offset {self.offset} of {self.tail}: {self.reason}"


class KnownDamage(Struct, frozen=True):
    """The damage that a store records: the reason why a server refuses it, and the damaged streams."""

    refusal: str | None = None
    streams: tuple[DamagedStream, ...] = ()


class Remark(Struct, frozen=True):
    """A finding that is not damage."""

    text: str


class Refusal(Struct, frozen=True):
    """The reason why a server does not start on the store, or takes no changes, until it is repaired."""

    text: str


class ReadProgress(Struct, frozen=True):
    """The place that is being read, and the number of bytes that have been read so far."""

    place: str
    read_bytes: int


class Tally(Struct):
    """The amount of checked data."""

    streams: int = 0
    stream_bytes: int = 0
    records: int = 0

    def add(self, stream_bytes: int) -> None:
        self.streams += 1
        self.stream_bytes += stream_bytes


class Report(Struct):
    """The findings of a check."""

    folder: Path
    mode: str
    tally: Tally = msgspec.field(default_factory=Tally)
    damages: list[Damage] = []
    remarks: list[Remark] = []
    streams: dict[int, DamagedStream] = {}
    """The streams that have lost bytes, by their incarnations."""
    refusals: list[Refusal] = []

    @property
    def sound(self) -> bool:
        """Whether everything verifies."""
        return not self.damages

    @property
    def base_readable(self) -> bool:
        """Whether LMDB can read all of its file."""
        return not any(refusal.text == BASE_UNREADABLE for refusal in self.refusals)

    def enter(self, message: object) -> None:
        match message:
            case Damage():
                self.damages.append(message)
            case Remark():
                self.remarks.append(message)
            case Refusal():
                self.refusals.append(message)
            case DamagedStream():
                known = self.streams.get(message.incarnation)
                if known is None or message.offset < known.offset:
                    self.streams[message.incarnation] = message
            case Tally():
                self.tally = message


Progress = Callable[[int, int], None]
Inspect = Callable[[Path, str, Connection], None]
Read = Callable[[Path, Progress, Inspect, str], Report]


class Findings:
    """Sends the findings of a checking process to the process that waits for it."""

    def __init__(self, folder: Path, write: Callable[[object], None]) -> None:
        self._folder = folder
        self._write = write
        self._place = str(folder)
        self._read_bytes = 0
        self._told_bytes = 0
        self.tally = Tally()

    def at(self, file: Path, part: str = "") -> None:
        """Report the place that is read next. If the process dies there, the damage is at this place."""
        self._place = " ".join(filter(None, (str(file.relative_to(self._folder)), part)))
        self._write(ReadProgress(self._place, self._read_bytes))

    def advance(self, read_bytes: int) -> None:
        """Count bytes that were read, and report them at intervals."""
        self._read_bytes += read_bytes
        if self._read_bytes - self._told_bytes >= TELL_EVERY_BYTES:
            self._told_bytes = self._read_bytes
            self._write(ReadProgress(self._place, self._read_bytes))

    def damage(self, problem: str, place: str = "", streams: tuple[int, ...] = ()) -> None:
        """Report damage, at the present place unless another one is given."""
        self._write(Damage(place or self._place, problem, streams))

    def damaged_stream(self, stream: DamagedStream, place: str = "") -> None:
        self._write(stream)
        self.damage(str(stream), place, (stream.incarnation,))

    def refuse(self, text: str) -> None:
        """Report why a server does not use the store."""
        self._write(Refusal(text))

    def remark(self, text: str) -> None:
        """Report a finding that is not damage."""
        self._write(Remark(text))


def find_stores(folder: Path) -> list[Path]:
    """Return the stores in a data folder. The folder may be a store itself."""
    if not folder.is_dir():
        raise StoreError(f"{folder} is not a folder")
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    stores = [path for path in places if (path / MANIFEST).is_file() or (path / BASE / DATA).is_file()]
    if not stores:
        raise StoreError(f"{folder} holds no store: there is no {MANIFEST} in it, nor in a folder in it")
    return stores


def check_store(folder: Path, progress: Progress, *, inspect: Inspect | None = None, boot: str | None = None) -> Report:
    """Check a store. `progress` is called with the number of bytes read so far, and of all bytes.

    `inspect` reads the store in a process of its own and sends its findings. The default is `inspect_store`. `boot` is
    the id of this boot of the machine.
    """
    lock = lock_folder(OsDisk(), folder)
    try:
        return read_store(folder, progress, inspect or inspect_store, boot_id() if boot is None else boot)
    finally:
        lock.release()


def read_store(folder: Path, progress: Progress, inspect: Inspect, boot: str) -> Report:
    """Check a store that this process has locked."""
    report = Report(folder, _mode_of(folder))
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    place = ""
    incoming, outgoing = SPAWN.Pipe(duplex=False)
    process = SPAWN.Process(target=inspect, args=(folder, boot, outgoing), daemon=True)
    process.start()
    # Without this end of the pipe here, `recv` raises `EOFError` when the process has died.
    outgoing.close()
    with closing(incoming):
        while (message := _receive(incoming)) is not None:
            if isinstance(message, ReadProgress):
                place = message.place
                progress(message.read_bytes, total)
            else:
                report.enter(message)
    process.join()
    if process.exitcode:
        report.damages.append(Damage(place, f"so damaged that reading it {ending_of(process.exitcode)}"))
        report.refusals.append(Refusal(BASE_UNREADABLE))
    progress(total, total)
    return report


def _mode_of(folder: Path) -> str:
    """Return the mode of a store, and refuse one of another format."""
    try:
        manifest = find_manifest(OsDisk(), folder)
    except StoreError:
        if not (folder / BASE / DATA).is_file():
            raise
        manifest = None
    if manifest is None:
        return "unknown"
    require_kind(folder, manifest, manifest.mode)
    return manifest.mode


def _receive(incoming: Connection) -> object:
    try:
        return incoming.recv()
    except EOFError:
        return None


def ending_of(code: int) -> str:
    return f"ended the reader with {signal.Signals(-code).name}" if code < 0 else f"ended the reader with code {code}"


def inspect_store(folder: Path, boot: str, outgoing: Connection) -> None:
    """Check a store. This is the main function of the checking process."""
    # Imported here, because that module imports this one.
    from everbrook.storage.check.store_check import StoreCheck

    findings = Findings(folder, outgoing.send)
    StoreCheck(folder, findings, boot).run()
    outgoing.send(findings.tally)
    outgoing.close()


def known_damage(folder: Path, *, boot: str | None = None) -> KnownDamage:
    """Read the damage that a store records, without a check. Raises `StoreError` if a server uses the store.

    `boot` is the id of this boot of the machine.
    """
    disk = OsDisk()
    lock = lock_folder(disk, folder)
    try:
        if (folder / REBUILT).is_dir():
            return KnownDamage("a repair was interrupted")
        if not (folder / BASE / DATA).is_file():
            return KnownDamage()
        # Before LMDB opens the file in this process, which a damaged page may end.
        problem = walk_base(folder)
        if problem:
            return KnownDamage(f"{BASE}/{DATA} can't be read: {problem}")
        try:
            with closing(open_base(disk, folder)) as base:
                return _noted(disk, folder, base, boot_id() if boot is None else boot)
        except StoreError as error:
            return KnownDamage(str(error))
    finally:
        lock.release()


def _noted(disk: OsDisk, folder: Path, base: LmdbBase, boot: str) -> KnownDamage:
    state, streams = base.state(), []
    for incarnation, mark in sorted(base.marks().items()):
        streams.append(DamagedStream.of(incarnation, base.readable_head(incarnation), mark.offset, mark.reason))
    salt = parse_manifest_copy(state.manifest or disk.read(folder / MANIFEST)).salt
    journal = read_journal(disk, folder / JOURNAL, salt, state.applied, state.needed)
    opened = parse_opened(state.opened)
    if opened and not opened.kept_in(boot):
        # Unsynced changes that were lost with the machine are no damage.
        journal = journal.written_prefix()
    return KnownDamage(UNKNOWN_LOSS if journal.unknown else None, tuple(streams))
