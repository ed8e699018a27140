"""The journal: every change in order, on the disk before it is answered.

It is a sequence of log files, each named after the number of its first record. A group of changes is one write and one
sync. When everything up to a number is kept elsewhere, the files that hold nothing newer are removed.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from everbrook.storage.api import refusal
from everbrook.storage.disk import Disk, File
from everbrook.storage.record import LOG_HEADER, Record, frame, log_header, parse_log_header, records

_PREFIX, _SUFFIX = "journal-", ".log"


# A file of the journal: where it is, the salt and first number in its header, and what it holds.
Log = tuple[Path, tuple[int, int], bytes]


class Damage(Struct, frozen=True):
    """Numbers that were on the disk and can't be read any more, and where they should be."""

    path: Path
    position: int
    first: int
    last: int


class Segment(Struct):
    """One file of the journal."""

    path: Path
    last: int


class Journal:
    """Writes groups of records, and gives them back after a crash."""

    def __init__(self, disk: Disk, folder: Path, salt: int) -> None:
        """Use a folder that exists. `salt` seeds the checksums of the files that are begun from now on."""
        self._disk = disk
        self._folder = folder
        self._salt = salt
        self._file: File | None = None
        self._segments: list[Segment] = []
        self.last = 0
        self.size = 0
        self.damages: list[Damage] = []

    def recover(self, applied: int) -> list[Record]:
        """Read the records after `applied`, which are kept elsewhere, and cut off what was torn.

        A number that is missing although it was known to be on the disk is damage, and what follows it is still given.
        One that nobody knew to be there was torn with its group: it ends the journal.
        """
        logs = self._read_logs()
        found = [(path, record) for path, header, log in logs for record in records(log, header[0])]
        # A file is begun when everything before it is on the disk.
        synced = max((record.synced for _, record in found), default=0)
        synced = max((synced, applied, *(first - 1 for _, (_, first), _ in logs)))
        kept: list[Record] = []
        expected, place = applied + 1, (self._folder, 0)
        self.last = applied
        for path, record in found:
            if record.number > expected:
                if expected > synced:
                    break
                self.damages.append(Damage(*place, expected, record.number - 1))
            if record.number >= expected:
                kept.append(record)
                expected = record.number + 1
            self.last, place = max(self.last, record.number), (path, record.end)
        if expected <= synced:
            self.damages.append(Damage(*place, expected, synced))
            self.last = synced
        self._cut_torn(logs, place)
        return kept

    def _read_logs(self) -> list[Log]:
        """Read every file. One without a whole header was begun when the crash came, and holds nothing."""
        logs: list[Log] = []
        for name in self._disk.names(self._folder):
            if not name.endswith(_SUFFIX):
                continue
            path = self._folder / name
            log = self._disk.read(path)
            header = parse_log_header(log)
            if header:
                logs.append((path, header, log))
            elif len(log) <= LOG_HEADER.size:
                self._disk.remove(path)
            else:
                self._set_aside(path)
        self._disk.sync_folder(self._folder)
        return logs

    def _set_aside(self, path: Path) -> None:
        """Keep a file whose header is damaged, for whoever may read more out of it than we can."""
        first = int(path.name.removeprefix(_PREFIX).removesuffix(_SUFFIX))
        aside = path.with_suffix(".damaged")
        self._disk.rename(path, aside)
        self.damages.append(Damage(aside, 0, first, first))

    def _cut_torn(self, logs: list[Log], place: tuple[Path, int]) -> None:
        """Cut the journal behind its last good record, so that nothing torn is ever read again.

        What is kept is synced: it may have been read from memory that only this system has, and is built upon.
        """
        last_path, end = place
        for path, _, log in logs:
            if path > last_path:
                self._disk.remove(path)
                continue
            keep = max(end, LOG_HEADER.size) if path == last_path else len(log)
            file = self._disk.open(path)
            if keep < len(log):
                file.truncate(keep)
            file.sync()
            file.close()
            self._segments.append(Segment(path, self.last))
            self.size += keep
        self._disk.sync_folder(self._folder)

    def append(self, bodies: Sequence[bytes]) -> None:
        """Write a group and return when it is on the disk.

        If there is no room to write, the file is cut back to where it was and the journal is as before. After any
        other error, that of a sync above all, it must not be used any more.
        """
        file = self._file or self._begin()
        synced, number = self.last, self.last
        parts: list[bytes] = []
        for body in bodies:
            number += 1
            parts.append(frame(self._salt, number, synced, body))
        before = file.size
        try:
            file.write(b"".join(parts))
        except OSError as error:
            file.truncate(before)
            # Else a power failure could bring back what was refused, and what it refers to may be gone by then.
            file.sync()
            raise refusal(error) from error
        file.sync()
        self.last = self._segments[-1].last = number
        self.size += file.size - before

    def _begin(self) -> File:
        """Begin a file. Its header is durable before a record follows it, its name before anything is answered."""
        path = self._folder / f"{_PREFIX}{self.last + 1:020d}{_SUFFIX}"
        try:
            file = self._disk.create(path)
        except OSError as error:
            raise refusal(error) from error
        try:
            file.write(log_header(self._salt, self.last + 1))
        except OSError as error:
            file.close()
            self._disk.remove(path)
            raise refusal(error) from error
        file.sync()
        self._disk.sync_folder(self._folder)
        self._file = file
        self._segments.append(Segment(path, self.last))
        return file

    def roll(self) -> list[Path]:
        """End the current file. Gives the files that can go when all that was written so far is kept elsewhere."""
        if self._file:
            self._file.close()
            self._file = None
        ended = [segment.path for segment in self._segments]
        self._segments.clear()
        self.size = 0
        return ended

    def remove(self, paths: Sequence[Path]) -> None:
        """Remove files whose records are kept elsewhere, the oldest first."""
        present = set(self._disk.names(self._folder))
        for path in paths:
            if path.name in present:
                self._disk.remove(path)
        self._disk.sync_folder(self._folder)

    def close(self) -> None:
        """Let the file go."""
        if self._file:
            self._file.close()
            self._file = None
