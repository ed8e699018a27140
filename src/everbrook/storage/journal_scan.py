"""The scan of a journal: finds its valid records, its lost changes, and its torn end.

A record that can't be read is damage if its durability is proven: by a later record, a seal, a file that begins after
it, or the base. Otherwise it is torn: a crash interrupted the write of its group before it was acknowledged, and the
journal ends before it. Recovery and the check read a journal by this scan.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from everbrook.storage.damage import Damage
from everbrook.storage.disk import Disk
from everbrook.storage.record import CONTINUES, LogScan, Record, Unreadable, seed_of

_NAME = re.compile(r"journal-(\d{20})-(\d{8})-(\d+)\.log\Z")
_MAX_KEPT_BYTES = 1 << 20


class LogFile(Struct):
    """One file of the journal."""

    path: Path
    first: int
    use: int
    size: int
    last: int = 0
    """The number of its last record, known once the file has ended."""
    end: int = 0
    """The end of its last record, known once the file was read or has ended."""
    proven: int = 0
    """The position before which its bytes are proven durable, known once the file was read."""

    def scan(self, log: bytes, salt: int) -> Iterator[Record | Unreadable]:
        return LogScan(log, seed_of(salt, self.first, self.use)).items()


def parse_log_file(path: Path) -> LogFile | None:
    """Parse the name of a journal file. None: it is the name of another file."""
    parts = _NAME.match(path.name)
    return LogFile(path, int(parts[1]), int(parts[2]), int(parts[3])) if parts else None


def log_files(disk: Disk, folder: Path) -> list[LogFile]:
    """Return the files of a journal, in the order of their uses; none if the folder is missing."""
    names = disk.names(folder) if folder.is_dir() else []
    found = (parse_log_file(folder / name) for name in names)
    return sorted(filter(None, found), key=lambda file: file.use)


def log_file_name(first: int, use: int, size: int) -> str:
    return f"journal-{first:020d}-{use:08d}-{size}.log"


class Torn(Struct, frozen=True):
    """A torn write, which was never acknowledged: its bytes, and the streams that its frames list."""

    path: Path
    position: int
    data: bytes
    streams: tuple[int, ...]


class Lost(Struct, frozen=True):
    """An acknowledged change that can't be read. `damage.streams` are the streams that it edited."""

    number: int
    damage: Damage


class Recovered(Struct, frozen=True):
    """The content of a journal after a number: its records in order, and its damage."""

    first: int
    records: list[Record]
    last: int
    lost: list[Lost]
    """Lost changes whose streams are known."""
    unknown: list[Damage]
    """Lost ranges of the journal whose streams are unknown."""
    torn: Torn | None
    files: list[LogFile]
    last_use: int

    @property
    def damages(self) -> list[Damage]:
        return [*(each.damage for each in self.lost), *self.unknown]

    def written_prefix(self) -> "Recovered":
        """Return the records before the first missing one: those that were on the disk when the machine stopped.

        This is for a journal without syncs, whose end may be lost without damage.
        """
        records: list[Record] = []
        for record in self.records:
            if record.number != self.first + len(records):
                break
            records.append(record)
        return Recovered(self.first, records, self.first + len(records) - 1, [], [], None, self.files, self.last_use)


class Needed(Struct, frozen=True):
    """The uses of the files that recovery needs, from `first` to `last`; none if `first` is larger."""

    first: int = 1
    last: int = 0


def read_journal(disk: Disk, folder: Path, salt: int, applied: int, needed: Needed) -> Recovered:
    """Read the records after `applied`, the last change in the base. `needed` are the files that must exist."""
    files = log_files(disk, folder)
    reading = _Reading(applied)
    for file in files:
        reading.take(file, disk.read(file.path), salt)
    present = {file.use for file in files}
    # The last file that must exist: the base names it, the seal before it announces it, or it was found.
    last_use = max((needed.last, reading.continued, *present))
    missing = [use for use in range(needed.first, last_use + 1) if use not in present]
    return reading.result(folder, missing, last_use)


class _Reading:
    """Collects the records and the damage of the files of a journal."""

    def __init__(self, applied: int) -> None:
        self._applied = applied
        self._proven = applied
        self._records: dict[int, Record] = {}
        self._bodies: dict[int, tuple[LogFile, Unreadable]] = {}
        self._holes: list[tuple[int, LogFile, Unreadable]] = []
        self._files: list[LogFile] = []
        self._last: tuple[LogFile, bytes, list[Record | Unreadable]] | None = None
        self.continued = 0

    def take(self, file: LogFile, log: bytes, salt: int) -> None:
        """Read a file. Records of earlier files from its first number on are ignored: they were torn or refused."""
        # A file begins after all changes before it were written, so its name proves them.
        self._proven = file.first - 1
        self._records = {number: record for number, record in self._records.items() if number < file.first}
        self._bodies = {number: body for number, body in self._bodies.items() if number < file.first}
        items = list(file.scan(log, salt))
        self._files.append(file)
        self._last = (file, log, items)
        file.end = file.proven = max((item.end for item in items), default=0)
        number = file.first - 1
        for item in items:
            if isinstance(item, Unreadable) and not item.number:
                self._holes.append((number + 1, file, item))
                continue
            if isinstance(item, Record) and item.seal:
                if item.flags & CONTINUES:
                    self.continued = max(self.continued, file.use + 1)
                self._proven = max(self._proven, item.number)
                continue
            # A damaged frame has no number, but numbers are consecutive.
            number = item.number or number + 1
            if isinstance(item, Record):
                self._records[number] = item if item.number else replace(item, number=number)
                self._proven = max(self._proven, item.durable)
            else:
                self._bodies[number] = (file, item)

    def result(self, folder: Path, missing: list[int], last_use: int) -> Recovered:
        records: list[Record] = []
        lost: list[Lost] = []
        unknown: list[Damage] = []
        number = self._applied + 1
        while number in self._records or number <= self._proven:
            if number in self._records:
                records.append(self._records[number])
                number += 1
            elif number in self._bodies:
                file, item = self._bodies[number]
                place = f"{file.path.parent.name}/{file.path.name} at byte {item.position}"
                lost.append(Lost(number, Damage(place, f"change {number} can't be read", item.streams)))
                number += 1
            else:
                first = number
                while number <= self._proven and number not in self._records and number not in self._bodies:
                    number += 1
                unknown.append(Damage(self._place(folder, first), f"changes {first} to {number - 1} are missing"))
        unknown += self._lost_ends(folder, missing, last_use)
        torn = self._torn(number - 1)
        if self._last:
            file, _, items = self._last
            # From here on nothing proves the records durable, so the journal writes them again.
            file.proven = min(
                (each.position for each in items if not 0 < each.number <= self._proven), default=file.end
            )
        return Recovered(self._applied + 1, records, number - 1, lost, unknown, torn, self._files, last_use)

    def _place(self, folder: Path, number: int) -> str:
        """Return the place where a lost record should be."""
        for first, file, hole in reversed(self._holes):
            if first <= number:
                return f"{folder.name}/{file.path.name} at byte {hole.position}"
        return folder.name

    def _lost_ends(self, folder: Path, missing: list[int], last_use: int) -> Iterator[Damage]:
        """Yield the damage to the end of the journal, which no record proves: the last file is missing or short."""
        if last_use in missing:
            yield Damage(folder.name, f"file {last_use} is missing, with all changes after the last one that is left")
        elif self._last and len(self._last[1]) < self._last[0].size:
            file, log, _ = self._last
            place = f"{folder.name}/{file.path.name}"
            yield Damage(place, f"it has {len(log)} of its {file.size} bytes; the last changes may be lost")

    def _torn(self, last: int) -> Torn | None:
        """Return the torn write behind the last record of the last file."""
        if self._last is None:
            return None
        file, log, items = self._last
        kept = max((item.end for item in items if item.number and item.number <= last), default=0)
        behind = [item for item in items if item.position >= kept]
        # Zeros at the end are room that was allocated and never written.
        data = log[kept : min(kept + _MAX_KEPT_BYTES, max((item.end for item in behind), default=0))].rstrip(b"\0")
        streams = {stream for item in behind if isinstance(item, Unreadable) for stream in item.streams}
        return Torn(file.path, kept, data, tuple(sorted(streams))) if data else None
