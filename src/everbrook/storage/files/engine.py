"""The file engine: logs of plain files, a catalogue of the names, one side that writes and one that reads."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from everbrook.protocol.change import Change, Drop, Write
from everbrook.protocol.errors import StreamDamaged
from everbrook.protocol.state import Head
from everbrook.storage.api import Record, StorageFull
from everbrook.storage.disk import Disk
from everbrook.storage.files.catalogue import GENERATION_SHIFT, Catalogue, Contents, Doubts
from everbrook.storage.files.damage import Damage
from everbrook.storage.files.doubt import Doubt
from everbrook.storage.files.handles import Syncer
from everbrook.storage.files.layout import Layout
from everbrook.storage.files.logs import Logs
from everbrook.storage.files.pens import SEGMENT_BYTES, Pens
from everbrook.storage.files.reader import Reader
from everbrook.storage.files.recovery import recover, sweep
from everbrook.storage.files.writer import Writer, refusal_of
from everbrook.storage.manifest import FORMAT, FolderLock, Manifest, open_manifest

logger = logging.getLogger(__name__)

MODE = "file"

# So much of a catalogue is left to the next opening to go through.
_TIDY_BYTES = 64 * 1024

# Each of them may have to be read from the disk.
_MORTAL_AT_ONCE = 16


class FileStorage:
    """Streams in files. A store can be opened as the fast or the durable mode, in turn."""

    blocking = True
    used_bytes = 0

    def __init__(
        self, disk: Disk, folder: Path, *, durable: bool, salt: int, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        """Open the store in `folder`, or make one. `salt` is a random number of 32 bits."""
        self.promise = f"what is acknowledged survives the end of this {'machine' if durable else 'process'}"
        disk.make_folder(folder)
        self._lock = FolderLock(folder)
        try:
            self._open(disk, folder, Syncer(disk, durable=durable), salt, segment_bytes)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, disk: Disk, folder: Path, syncer: Syncer, salt: int, segment_bytes: int) -> None:
        open_manifest(disk, folder, Manifest(FORMAT, MODE))
        self._disk = disk
        self._layout = Layout(folder)
        disk.make_folder(self._layout.streams)
        logs = Logs(disk, self._layout)
        contents, damages = recover(disk, folder, self._layout, logs, syncer)
        self._entries = contents.entries
        generation = contents.generation + 1
        doubt = self._doubt = Doubt(disk, self._layout, syncer, _doubts(contents))
        pens = Pens(disk, self._layout, logs, doubt, syncer, salt=salt, segment_bytes=segment_bytes)
        self._catalogue = Catalogue(disk, folder, salt, syncer)
        number = generation << GENERATION_SHIFT
        self._writer = Writer(disk, self._catalogue, pens, number)
        self._reader = Reader(disk, self._layout, logs, doubt, number)
        self._reader.damages += damages
        self._finish(contents)
        # What is written without syncs has to be synced by whoever opens the store as a durable one.
        doubts = doubt.doubts if syncer.durable else Doubts(generation + 1, generation + 1)
        self._begin = partial(self._catalogue.begin, self._entries, generation, doubts)
        with suppress(StorageFull):
            self._begin_catalogue()

    def _begin_catalogue(self) -> None:
        """Nothing can be written before. If there is no room for it yet, what is there can still be read."""
        try:
            self._begin(self._writer.number)
        except OSError as error:
            raise refusal_of(error) from error

    def _finish(self, contents: Contents) -> None:
        """Finish what an earlier time began."""
        if contents.joint:
            self._redo(contents)
        if not contents.clean:
            for folder in sweep(self._disk, self._layout, self._entries):
                self._writer.removed(folder)

    def _redo(self, contents: Contents) -> None:
        present = set(self._entries.incarnations())
        for number, change in contents.joint:
            for edit in change:
                if isinstance(edit, Write) and edit.head.identity.incarnation in present:
                    self._redo_write(number, edit, contents.salt)

    def _redo_write(self, number: int, write: Write, salt: int) -> None:
        try:
            self._writer.redo(number, write, salt)
        except Damage as damage:
            self._reader.report(damage)

    @property
    def damages(self) -> list[Damage]:
        """What was found to be damaged so far."""
        return self._reader.damages

    # Writing

    def cost_bytes(self, _write: Write) -> int:
        return 0

    def persist(self, group: Sequence[Change]) -> None:
        if self._doubt.failure:
            raise self._doubt.failure
        if not self._catalogue.begun:
            self._begin_catalogue()
        self._writer.persist(group)

    def apply(self, group: Sequence[Change]) -> None:
        number = self._reader.applied = self._writer.number
        for before_last, change in zip(range(len(group) - 1, -1, -1), group, strict=True):
            self._entries.apply(change)
            self._reader.apply(number - before_last, change)
            for edit in change:
                if isinstance(edit, Drop):
                    self._remove(edit.head.identity.incarnation)

    def _remove(self, incarnation: int) -> None:
        """Give the space of a stream back. What can't be removed now, an opening after a crash sweeps away."""
        self._reader.forget(incarnation)
        segment = 0
        with suppress(OSError):
            while True:
                self._disk.remove(self._layout.segment(incarnation, segment))
                self._writer.removed(self._layout.bucket(incarnation))
                segment += 1

    # Reading

    def load(self, name: bytes) -> Record | None:
        incarnation = self._entries.names.get(name)
        if incarnation is None:
            return None
        state = self._reader.log(incarnation).state
        return Record(state.head, state.producers)

    def mortal(self, after: int, limit: int) -> list[Head]:
        heads: list[Head] = []
        for incarnation in self._entries.mortal_after(after):
            with suppress(StreamDamaged):
                heads.append(self._reader.log(incarnation).state.head)
            if len(heads) >= min(limit, _MORTAL_AT_ONCE):
                break
        return heads

    def fork_count(self, incarnation: int) -> int:
        return self._entries.fork_count(incarnation)

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        return self._reader.read(incarnation, start, end)

    def boundary_at_or_before(self, incarnation: int, offset: int) -> int:
        return self._reader.boundary_at_or_before(incarnation, offset)

    def boundary_after(self, incarnation: int, offset: int) -> int:
        return self._reader.boundary_after(incarnation, offset)

    def append_end(self, incarnation: int, offset: int) -> int:
        return self._reader.append_end(incarnation, offset)

    def close(self) -> None:
        """Let everything go. The next opening has nothing to do if this one has finished everything."""
        clean = not self._writer.failed and not self._doubt.failure and self._reader.applied == self._writer.number
        try:
            self._writer.close()
            if clean and self._catalogue.grown > _TIDY_BYTES:
                self._tidy_catalogue()
        except OSError as error:
            clean = False
            logger.warning("the store could not be closed cleanly; the next opening looks it through: %s", error)
        self._close_catalogue(clean=clean)
        self._reader.clear()
        self._lock.release()

    def _tidy_catalogue(self) -> None:
        """Leave the next opening a snapshot, if there is room for one."""
        with suppress(StorageFull):
            self._begin_catalogue()

    def _close_catalogue(self, *, clean: bool) -> None:
        try:
            self._catalogue.close(self._writer.number, clean=clean)
        except OSError as error:
            logger.warning("the catalogue could not be closed; the next opening looks the store through: %s", error)


def _doubts(contents: Contents) -> Doubts:
    """Give what is doubted of a store: after a crash, the ends of all logs."""
    return contents.doubts if contents.clean else replace(contents.doubts, ends=contents.generation + 1)
