"""Checking a store of the file modes: every record of the catalogue and of the logs, and that they tell the same.

Of a log, what lies before its beginning may be missing, if neither its stream nor a fork of it retains that.
"""

import struct
from collections.abc import Iterable
from pathlib import Path

from everbrook.protocol.change import Change, Write
from everbrook.protocol.state import Head, Identity
from everbrook.storage.blob_check import BlobCheck
from everbrook.storage.check import Notebook
from everbrook.storage.disk import OsDisk
from everbrook.storage.files.beginnings import runs
from everbrook.storage.files.catalogue import Contents, catalogue_files, read_catalogue
from everbrook.storage.files.damage import Damage
from everbrook.storage.files.entries import Entries
from everbrook.storage.files.layout import Layout
from everbrook.storage.files.log import EVERYTHING, StreamLog, first_record, proves_loss
from everbrook.storage.files.logs import Logs
from everbrook.storage.files.recovery import stored_segments
from everbrook.storage.packing import Damaged
from everbrook.storage.record import LOG_HEADER, record_at
from everbrook.storage.retained import floor_of

UNREADABLE = (Damaged, struct.error, ValueError, IndexError)


def check_files(folder: Path, notebook: Notebook) -> None:
    """Read everything and write down what does not verify."""
    FileCheck(folder, notebook).run()


class FileCheck:
    """One check of one store."""

    def __init__(self, folder: Path, notebook: Notebook) -> None:
        self._folder = folder
        self._notebook = notebook
        self._disk = OsDisk()
        self._layout = Layout(folder)
        self._logs = Logs(self._disk, self._layout)
        self._blobs = BlobCheck(folder, notebook)
        self._forks: dict[int, list[Identity]] = {}
        self._mortal: set[int] = set()
        self._cut: list[tuple[Head, int]] = []
        self._left_over = 0

    def run(self) -> None:
        """Check the catalogue, then every log, then one against the other, then the blobs."""
        self._check_logs()
        self._check_beginnings()
        if self._left_over:
            self._notebook.remark(
                f"{self._left_over} segments are left that streams have let go of; a start after a crash removes them"
            )
        self._blobs.run()

    def _check_logs(self) -> None:
        contents = self._read_catalogue()
        segments: dict[int, list[int]] = {}
        if self._layout.streams.is_dir():
            for path, incarnation, number in stored_segments(self._disk, self._layout):
                if path == self._layout.segment(incarnation, number):
                    segments.setdefault(incarnation, []).append(number)
        if contents is None:
            for incarnation, numbers in segments.items():
                self._enter(self._check_log(incarnation, sorted(numbers)))
            return
        self._logs.beginnings = contents.entries.beginnings
        self._check_streams(contents, segments)
        self._check_entries(contents.entries)

    def _read_catalogue(self) -> Contents | None:
        for path in sorted(self._folder.glob("catalogue-*.damaged")):
            self._notebook.look_at(path)
            self._notebook.damage("was set aside when a server found it damaged")
        files = catalogue_files(self._disk, self._folder)
        if not files:
            return self._no_catalogue()
        self._notebook.at(files[-1].path)
        self._notebook.advance(files[-1].path.stat().st_size)
        try:
            contents = read_catalogue(self._disk, files[-1])
        except Damage as damage:
            self._notebook.damage("it can't be read; the next start makes it anew", f"at byte {damage.position}")
        except UNREADABLE:
            self._notebook.damage("it can't be read, though its checksums are right")
        else:
            self._check_end(files[-1].path, contents.salt)
            return contents
        return None

    def _check_end(self, path: Path, salt: int) -> None:
        data, position = path.read_bytes(), LOG_HEADER.size
        while record := record_at(data, position, salt):
            position = record.end
        if position < len(data):
            self._remark_torn(path, position, len(data))

    def _no_catalogue(self) -> Contents | None:
        """A store that was only just made has no catalogue. With streams there must be one."""
        if not self._layout.streams.is_dir() or not any(self._layout.streams.iterdir()):
            return Contents(Entries())
        self._notebook.look_at(self._layout.streams)
        self._notebook.damage("there are streams and no catalogue; the next start makes it anew")
        return None

    def _check_streams(self, contents: Contents, segments: dict[int, list[int]]) -> None:
        unfinished = _created(change for _, change in contents.joint)
        present = set(contents.entries.incarnations())
        for name, incarnation in contents.entries.names.items():
            head = self._check_log(incarnation, sorted(segments.get(incarnation, ())), torn=incarnation in unfinished)
            # What the catalogue alone has of a stream, the next start puts into its log.
            head = head or unfinished.get(incarnation)
            if head and (head.identity.name, head.identity.incarnation) != (name, incarnation):
                self._notebook.damage(f"it is not the stream that the catalogue calls {name!r}")
            self._enter(head)
        left = len(segments.keys() - present)
        if left:
            self._notebook.remark(f"{left} logs are left of streams that are gone; the next start removes them")

    def _enter(self, head: Head | None) -> None:
        if head is None:
            return
        identity = head.identity
        self._notebook.tally.add(head.tail - min(head.tail, max(identity.first_own_offset, head.kept.earliest)))
        self._blobs.add(head)
        if identity.fork:
            self._forks.setdefault(identity.fork.source_incarnation, []).append(identity)
        if identity.mortal:
            self._mortal.add(identity.incarnation)

    def _check_beginnings(self) -> None:
        """Check that the logs that begin later have everything that is retained."""
        for head, start in self._cut:
            incarnation = head.identity.incarnation
            forks = self._forks.get(incarnation)
            floor = floor_of(head, min(forks, key=lambda fork: fork.incarnation) if forks else None)
            if start > floor:
                self._notebook.look_at(self._layout.segment(incarnation, self._logs.beginnings.of(incarnation)))
                self._notebook.damage(f"the log begins at offset {start}, and is needed from {floor} on")

    def _check_entries(self, entries: Entries) -> None:
        """Check that the catalogue has the forks and the mortal streams that the logs tell of."""
        for file in catalogue_files(self._disk, self._folder)[-1:]:
            self._notebook.look_at(file.path)
        for incarnation in entries.incarnations():
            told, entered = len(self._forks.get(incarnation, ())), entries.fork_count(incarnation)
            if told != entered:
                self._notebook.damage(f"it enters {entered} forks of stream {incarnation:016x}, the logs have {told}")
        if self._mortal ^ set(entries.mortal_after(-1)):
            self._notebook.damage("it does not have the streams that time acts on")

    def _check_log(self, incarnation: int, numbers: list[int], *, torn: bool = False) -> Head | None:
        """Read all segments of a stream. `torn`: its creation may be missing, for the catalogue has it."""
        self._notebook.at(self._layout.segment(incarnation, 0))
        if not numbers:
            if not torn:
                self._notebook.damage("the log is missing")
            return None
        first = self._logs.locate(incarnation, numbers)
        self._left_over += sum(number < first for number in numbers)
        numbers = [number for number in numbers if number >= first]
        if len(runs(numbers)) > 1:
            self._notebook.damage("the log has gaps")
            return None
        return self._check_segments(incarnation, numbers, torn=torn)

    def _check_segments(self, incarnation: int, numbers: list[int], *, torn: bool) -> Head | None:
        log: StreamLog | None = None
        starts: list[int] = []
        for number in numbers:
            path = self._layout.segment(incarnation, number)
            self._notebook.at(path)
            try:
                log = self._check_segment(path, log, last=number == numbers[-1], torn=torn)
            except Damage as damage:
                self._notebook.damage("what was on the disk here can't be read", f"at byte {damage.position}")
                return None
            except UNREADABLE as error:
                self._notebook.damage(f"it can't be read, though its checksums are right: {error}")
                return None
            if log is None:
                return None
            starts.append(log.index.first)
        if log and numbers[0]:
            self._cut.append((log.state.head, starts[0]))
        return log.state.head if log else None

    def _check_segment(self, path: Path, before: StreamLog | None, *, last: bool, torn: bool) -> StreamLog | None:
        data = path.read_bytes()
        self._notebook.advance(len(data))
        found = first_record(data)
        number = int(path.stem.rpartition("-")[2])
        if found is None:
            return self._begun(path, data, before, last=last, torn=torn)
        log = StreamLog(number, *found)
        if before and (log.number != before.number or log.state.head != before.state.head):
            raise Damage(path, 0)
        if before and log.state.producers != before.state.producers:
            raise Damage(path, 0)
        log.take(path, data, 0, EVERYTHING)
        if log.index.tail != log.state.head.tail:
            self._notebook.damage(f"its bytes end at {log.index.tail}, its tail is {log.state.head.tail}")
        if log.position < len(data):
            self._end(path, log, len(data), last=last)
        return log

    def _begun(self, path: Path, data: bytes, before: StreamLog | None, *, last: bool, torn: bool) -> StreamLog | None:
        """Judge a segment with no whole beginning: a crash may have come when it was begun."""
        if before is None and torn:
            return None
        if before is None or not last or proves_loss(data, 0, before.salt, before.number):
            raise Damage(path, 0)
        self._notebook.remark(f"{path.name} was begun when the server ended; it holds nothing yet")
        return before

    def _end(self, path: Path, log: StreamLog, size: int, *, last: bool) -> None:
        if not last:
            raise Damage(path, log.position)
        self._remark_torn(path, log.position, size)

    def _remark_torn(self, path: Path, position: int, size: int) -> None:
        self._notebook.remark(
            f"{path.name} ends with {size - position} bytes of a write that a crash cut off, from byte {position} on; "
            "nobody was told of it, and it is removed before the next one"
        )


def _created(changes: Iterable[Change]) -> dict[int, Head]:
    """Give the streams that changes create."""
    edits = (edit for change in changes for edit in change)
    return {edit.head.identity.incarnation: edit.head for edit in edits if isinstance(edit, Write) and edit.created}
