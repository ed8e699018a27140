"""The journal, a write-ahead log: every change in order, durable before it is acknowledged.

The journal is a sequence of log files. A file is allocated before it is used, and recycled afterwards. So a sync writes
no metadata, and a full disk refuses a group before any byte of it is written. The name of a file has the number of its
first record, its use (a counter over all files of the journal) and its size. The seed of its checksums follows from the
first two and the salt of the store. The name is durable before the first record, and a recycled file gets a new name.
So a file needs no header, and a file that is shorter than its name says has lost bytes.
"""

import errno
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from threading import Lock

from msgspec import Struct

from everbrook.storage.api import StorageFull, refusal, refusal_to_open
from everbrook.storage.disk import Disk, File
from everbrook.storage.journal_scan import LogFile, Needed, Recovered, log_file_name
from everbrook.storage.record import CONTINUES, FRAME, Framer, Record, seed_of

Entry = tuple[Sequence[int], bytes]
"""The streams that a change edits, and the packed change."""

_SPARE = "spare.log"
# Each file reserves this room for the seal at its end.
_RESERVE_BYTES = FRAME.size


class JournalTuning(Struct, frozen=True, kw_only=True):
    """Sizes of the journal's files."""

    first_file_bytes: int = 1 << 20
    """The size of the first file after a start. Each following one is twice as large."""
    max_file_bytes: int = 16 << 20
    """The size beyond which files grow only for a group that is larger."""


class Framed(Struct, frozen=True):
    """Changes as they are written to one file of the journal."""

    entries: Sequence[Entry]
    after: int
    framer: Framer
    data: bytes


class Fenced(Exception):
    """Another writer has appended to the journal."""


class Journal:
    """Writes groups of changes. One thread calls `append` and `seal`; `roll` is called while neither of them runs.

    `_lock` guards the list of files and the end of the current one: checkpoints and pins read them from other threads.
    """

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        salt: int,
        recovered: Recovered,
        *,
        sync: bool,
        tuning: JournalTuning,
        synced: bool = True,
    ) -> None:
        """Continue the journal that was read from a folder. `sync`: an append is on the disk when it returns.

        `synced`: the process that wrote the recovered records synced each append too.
        """
        self._disk = disk
        self._folder = folder
        self._salt = salt
        self._sync = sync
        self._tuning = tuning
        self._lock = Lock()
        self._spare_lock = Lock()
        """Guards the spare file. A thread that holds it never waits for `_lock`: `append` takes both, `_lock` first."""
        self._file: File | None = None
        self._framer = Framer(0)
        self._position = 0
        self._spare_bytes = 0
        self._next_bytes = tuning.first_file_bytes
        self._files: list[LogFile] = []
        self._rolled = True
        self._sealed = self.last = recovered.last
        self._settled = -1 if recovered.files else 0
        """The number up to which `settle` has brought records to the disk; -1 if they must be written again first."""
        self.last_use = recovered.last_use
        self.size = 0
        """The bytes of the records that were written since the last roll."""
        self._rolled_bytes = 0
        self.recycles = True
        """Whether `trim` may recycle a file. A pin turns this off: it holds files open and reads their old bytes."""
        self._adopt(recovered, synced=synced)

    def _adopt(self, recovered: Recovered, *, synced: bool) -> None:
        """Take over the existing files, so that `trim` removes them.

        Later changes depend on their records, so the records that are not proven durable are written again.
        """
        # The spare file of an earlier process: its blocks may not be on the disk, and its size is unknown here.
        if _SPARE in self._disk.names(self._folder):
            self._disk.remove(self._folder / _SPARE)
        for file in recovered.files:
            file.last = recovered.last
            self._files.append(file)
            if self._sync:
                self._rewrite(file, file.proven if synced else 0, file.end)
        self.size = sum(record.end - record.position for record in recovered.records)
        self._disk.sync_folder(self._folder)

    def needed_after(self, number: int) -> Needed:
        """Return the uses of the files that recovery needs if the base has every change up to `number`."""
        with self._lock:
            *ended, current = self._files
            first = next((file.use for file in ended if file.last > number), current.use)
            return Needed(first, current.use)

    @property
    def files(self) -> list[tuple[LogFile, int]]:
        """The files, with the number of bytes of each that belong to the journal now."""
        with self._lock:
            current = self._files[-1] if self._file else None
            return [(file, self._position if file is current else file.size) for file in self._files]

    def frame(self, entries: Sequence[Entry], after: int) -> "Framed":
        """Frame the changes behind number `after` for the current file. Any thread may call this."""
        framer, number = self._framer, after
        parts: list[bytes] = []
        for streams, body in entries:
            number += 1
            parts += (framer.frame(number, after, streams, body), body)
        return Framed(entries, after, framer, b"".join(parts))

    def append(self, framed: "Framed") -> None:
        """Write framed changes, which follow the last ones, and return when they are durable.

        Raises `StorageFull` if there is no room: the journal is unchanged. After any other error it must not be used.
        """
        if framed.after != self.last:
            raise Fenced(f"the journal is at {self.last}, not at {framed.after}")
        size = len(framed.data)
        with self._lock:
            file = self._room_for(size)
            if framed.framer is not self._framer:
                # A new file has another seed, so the frames for the file before are not valid in it.
                framed = self.frame(framed.entries, framed.after)
            self._write(file, framed.data)
            self.last += len(framed.entries)
            self.size += size

    def _write(self, file: File, data: bytes) -> None:
        try:
            file.write_at(self._position, data, sync=self._sync)
        except OSError as error:
            refused = refusal(error)
            if isinstance(refused, StorageFull):
                # The group is refused, so recovery must not find it after a power failure: overwrite it with zeros.
                file.write_at(self._position, bytes(len(data)), sync=True)
            raise refused from error
        self._position += len(data)

    @property
    def unsealed(self) -> bool:
        """Whether the last record has no proof of its durability: a later record, or a seal."""
        return self._sealed < self.last

    def seal(self) -> None:
        """Write a seal, which proves the last record durable: damage to it is then not mistaken for a torn write."""
        with self._lock:
            if self._file and self.unsealed:
                self._seal(self._file)

    def _seal(self, file: File, flags: int = 0) -> None:
        self._write(file, self._framer.frame(self.last, self.last, (), b"", flags))
        self._sealed = self.last

    def _room_for(self, size: int) -> File:
        """Return a file that has room for a group and for the seal after it."""
        if self._file and not self._rolled and self._position + size + 2 * _RESERVE_BYTES <= self._files[-1].size:
            return self._file
        return self._begin(size)

    def begin(self) -> None:
        """Begin the file for the next group, unless it was begun since the last roll."""
        with self._lock:
            if self._rolled:
                self._begin(0)

    def _begin(self, size: int) -> File:
        """Begin a file of at least `size` bytes. On return its name is durable, and the file before it refers to it."""
        wanted = max(self._next_bytes, size + 2 * _RESERVE_BYTES)
        first, use = self.last + 1, self.last_use + 1
        file, path, allocated = self._named(first, use, wanted)
        # The use counts even if a step below fails: a second file of the same use would hide the records of this one.
        self.last_use = use
        # Once the new name is on the disk, recovery ignores records of earlier files from `first` on. The rename may
        # have reached the disk: from here on no record may be appended to the file before it, even after an error.
        self._rolled = True
        try:
            self._disk.sync_folder(self._folder)
        except BaseException as error:
            file.close()
            if isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}:
                # These errors come from opening the folder, before the sync, so no state on the disk is unknown.
                raise refusal_to_open(error) from error
            raise
        if self._file:
            with suppress(StorageFull):
                # The seal says that the journal continues, with which recovery notices the loss of the new file. It may
                # be left out: the first number of the new file proves the same records.
                self._seal(self._file, CONTINUES)
            self._file.close()
        if self._files:
            ended = self._files[-1]
            ended.last, ended.end = self.last, self._end_of(ended)
        self._file, self._position, self._rolled = file, 0, False
        self._framer = Framer(seed_of(self._salt, first, use))
        self._files.append(LogFile(path, first, use, allocated))
        self._next_bytes = min(2 * wanted, max(self._tuning.max_file_bytes, self._tuning.first_file_bytes))
        return file

    def _named(self, first: int, use: int, size: int) -> tuple[File, Path, int]:
        """Rename the spare file, which is made anew if it is too small. `StorageFull`: the journal is unchanged."""
        spare = self._folder / _SPARE
        with self._spare_lock:
            try:
                if self._spare_bytes < size:
                    self._make_spare(size)
                file = self._disk.open(spare)
            except OSError as error:
                raise refusal_to_open(error) from error
            path, allocated = self._folder / log_file_name(first, use, self._spare_bytes), self._spare_bytes
            try:
                self._disk.rename(spare, path)
            except OSError as error:
                file.close()
                raise refusal(error) from error
            self._spare_bytes = 0
        return file, path, allocated

    def _make_spare(self, size: int) -> None:
        """Allocate the next file in advance. Its blocks are on the disk, so that a later sync writes no metadata."""
        spare = self._folder / _SPARE
        self._spare_bytes = 0
        if _SPARE in self._disk.names(self._folder):
            self._disk.remove(spare)
        with closing(self._disk.create(spare)) as file:
            try:
                file.allocate(size)
                file.sync()
            except OSError:
                self._disk.remove(spare)
                raise
        self._spare_bytes = size

    def _drop_spare(self) -> None:
        if self._spare_bytes:
            self._spare_bytes = 0
            self._disk.remove(self._folder / _SPARE)

    def roll(self) -> int:
        """End the current file: the next group goes to a new one. Returns the last number that was written."""
        self._rolled = True
        self._rolled_bytes += self.size
        self.size = 0
        return self.last

    @property
    def pending_bytes(self) -> int:
        """The bytes of the records that no checkpoint has taken into the base yet."""
        return self._rolled_bytes + self.size

    def trim(self, up_to: int) -> None:
        """Remove the files that hold no record after `up_to`, and recycle one of them as the next file.

        Groups are written meanwhile: only one that needs the next file waits.
        """
        with self._lock:
            self._rolled_bytes = 0
            recycles, wanted = self.recycles, self._next_bytes
            ended = [file for file in self._files[:-1] if file.last <= up_to]
            # A pin that begins from now on does not see these files. One that began before has turned recycling off.
            self._files = [file for file in self._files if file not in ended]
        left = deque(ended)
        try:
            # Outside of `_lock`, because removals and syncs of folders take long, and groups must be written meanwhile.
            with self._spare_lock:
                while left:
                    self._give_up(left[0], recycled=recycles and left[0].size >= wanted)
                    left.popleft()
                if ended:
                    self._disk.sync_folder(self._folder)
                if self._spare_bytes < wanted:
                    with suppress(OSError):
                        # Without a spare file, the next group that needs one makes it, or is refused.
                        self._make_spare(wanted)
        finally:
            if left:
                # An error ended the removals: the next `trim` tries the rest again.
                with self._lock:
                    self._files[:0] = left

    def _give_up(self, file: LogFile, *, recycled: bool) -> None:
        """Make a file the spare file if it is larger than the present one, or remove it."""
        if recycled and file.size > self._spare_bytes:
            self._drop_spare()
            self._disk.rename(file.path, self._folder / _SPARE)
            self._spare_bytes = file.size
        else:
            with suppress(FileNotFoundError):
                self._disk.remove(file.path)

    def settle(self) -> None:
        """Sync every record, even in a mode that does not sync each append. Any thread may call it.

        Call it before removing data that only an older state needs: a power failure must not restore that state without
        its data.
        """
        with self._lock:
            last, files = self.last, list(self._files)
            if self._sync or last == self._settled:
                return
            if self._settled < 0:
                # Under the lock, so that no file is recycled meanwhile: its new records would be overwritten.
                for file in files:
                    self._rewrite(file, 0, self._end_of(file))
                self._settled = last
                return
        try:
            for file in files:
                # A file that is missing was trimmed meanwhile, so its changes are in the base.
                with suppress(FileNotFoundError):
                    self._sync_file(file.path)
        except OSError:
            # After a failed sync a second one proves nothing, so the next call writes the records again.
            self._settled = -1
            raise
        self._settled = last

    def _sync_file(self, path: Path) -> None:
        with closing(self._disk.open(path)) as file:
            file.sync()

    def _rewrite(self, log: LogFile, start: int, end: int) -> None:
        """Write a part of a file again, and return when it is on the disk.

        A sync alone is no proof: after a failed sync the system may keep the bytes in memory, marked as clean. The next
        sync then succeeds and writes nothing.
        """
        if start == end:
            return
        data = self._disk.read(log.path, start, end - start)
        with closing(self._disk.open(log.path)) as file:
            file.write_at(start, data, sync=True)

    def _end_of(self, file: LogFile) -> int:
        return self._position if self._file and file is self._files[-1] else file.end

    def follow(self, after: int) -> Iterator[Record]:
        """Yield the durable records after a number, in order."""
        last, files = self.last, self.files
        for place, (file, size) in enumerate(files):
            # Records from the first number of a later file on are ignored: they were torn or given up.
            end = min((later.first - 1 for later, _ in files[place + 1 :]), default=last)
            for item in file.scan(self._disk.read(file.path, 0, size), self._salt):
                if isinstance(item, Record) and not item.seal and after < item.number <= end:
                    if item.number != after + 1:
                        raise LookupError(
                            f"change {after + 1} is not in the journal any more: it goes on with change {item.number}"
                        )
                    yield item
                    after = item.number

    def close(self, *, trimmed: bool) -> None:
        """Close the file. `trimmed`: the base has every change, so all files are removed."""
        if self._file:
            try:
                if not trimmed:
                    self.seal()
            finally:
                self._file.close()
                self._file = None
        if trimmed:
            for file in self._files:
                self._disk.remove(file.path)
            self._drop_spare()
            self._disk.sync_folder(self._folder)
