"""The file engine: logs of plain files, a catalogue of the names, one side that writes and one that reads."""

import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from everbrook.protocol.change import Change, Drop, Write
from everbrook.protocol.errors import StreamDamaged
from everbrook.protocol.state import Head
from everbrook.storage.api import Record, StorageFull
from everbrook.storage.disk import Disk
from everbrook.storage.file_blobs import FileBlobs
from everbrook.storage.files.catalogue import GENERATION_SHIFT, Catalogue, Contents, Doubts, catalogue_files
from everbrook.storage.files.damage import Damage
from everbrook.storage.files.discarding import Discarder
from everbrook.storage.files.doubt import Doubt
from everbrook.storage.files.handles import Syncer
from everbrook.storage.files.layout import Layout
from everbrook.storage.files.logs import Logs
from everbrook.storage.files.pens import Pens
from everbrook.storage.files.pinning import FilesPin
from everbrook.storage.files.reader import Reader
from everbrook.storage.files.recovery import recover, sweep
from everbrook.storage.files.removals import Removals
from everbrook.storage.files.tuning import DEFAULT_TUNING, FilesTuning
from everbrook.storage.files.writer import Writer, refusal_of
from everbrook.storage.index import Messages
from everbrook.storage.manifest import FORMAT, Manifest, open_folder, open_manifest

logger = logging.getLogger(__name__)

MODE = "file"

# So much of a catalogue is left to the next opening to go through.
_TIDY_BYTES = 64 * 1024

# Each of them may have to be read from the disk.
_MORTAL_AT_ONCE = 16


class FilesInspection(Struct, frozen=True, kw_only=True):
    """The caches and open files of a file storage, which its tuning bounds."""

    hot_logs: int
    hot_bytes: int
    older_bytes: int
    pens_bytes: int
    open_files: int


class FileStorage:
    """Streams in files. A store can be opened as the fast or the durable mode, in turn."""

    blocking = True
    used_bytes = 0
    checkpoints = None

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        *,
        durable: bool,
        salt: int,
        tuning: FilesTuning = DEFAULT_TUNING,
        removal_executor: Executor | None = None,
        sync_executor: Executor | None = None,
    ) -> None:
        """Open the store in `folder`, or make one. `salt` is a random number of 32 bits.

        `removal_executor` removes segments, one after the other, and `sync_executor` syncs several files beside each
        other. They are shut down with the storage. The default of each is threads.
        """
        self.promise = f"what is acknowledged survives the end of this {'machine' if durable else 'process'}"
        self._tuning = tuning
        self._lock = open_folder(disk, folder)
        try:
            self._open(disk, folder, Syncer(disk, durable=durable, executor=sync_executor), salt, removal_executor)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, disk: Disk, folder: Path, syncer: Syncer, salt: int, removal_executor: Executor | None) -> None:
        open_manifest(disk, folder, Manifest(FORMAT, MODE))
        self._disk = disk
        self._layout = Layout(folder)
        disk.make_folder(self._layout.streams)
        self.blobs = FileBlobs(
            disk, self._layout.blobs, durable=syncer.durable, sync_bytes=self._tuning.blob_sync_bytes
        )
        self._folder, self._pins = folder, set[FilesPin]()
        hold = self._hold = self.blobs.hold
        logs = self._logs = Logs(disk, self._layout)
        contents, damages = recover(disk, folder, self._layout, logs, syncer)
        self._entries = contents.entries
        logs.beginnings = contents.entries.beginnings
        generation = contents.generation + 1
        doubt = self._doubt = Doubt(disk, self._layout, logs, syncer, _doubts(contents))
        pens = self._pens = Pens(disk, self._layout, logs, doubt, syncer, salt=salt, tuning=self._tuning)
        self._catalogue = Catalogue(disk, folder, salt, syncer)
        number = generation << GENERATION_SHIFT
        self._writer = Writer(disk, self._catalogue, pens, number, hold, self._tuning.renew_at_bytes)
        self._removals = Removals(
            disk, self._layout, self._writer.removed, hold, durable=syncer.durable, executor=removal_executor
        )
        self._reader = Reader(disk, self._layout, logs, doubt, number, self._tuning)
        self._reader.damages += damages
        self._discarder = Discarder(self._entries, logs, self._reader, self._removals)
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
        """Finish what an earlier time began. Where each log begins has to be known before one is written to."""
        if not contents.clean:
            for folder in sweep(self._disk, self._layout, self._entries, self._logs):
                self._writer.removed(folder)
        if contents.joint:
            self._redo(contents)

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

    def inspect(self) -> FilesInspection:
        """Give what is in memory and open at the moment."""
        return FilesInspection(
            hot_logs=len(self._reader.hot),
            hot_bytes=self._reader.hot.weight,
            older_bytes=self._reader.older.weight,
            pens_bytes=self._pens.weight,
            open_files=len(self._pens.handles),
        )

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
            for edit in change:
                if isinstance(edit, Drop):
                    self._remove(edit.head.identity.incarnation)
            self._entries.apply(change)
            self._reader.apply(number - before_last, change)

    def _remove(self, incarnation: int) -> None:
        """Give the space of a stream back. What can't be removed now, an opening after a crash sweeps away."""
        self._reader.forget(incarnation)
        with suppress(OSError):
            segment = self._logs.first(incarnation) or 0
            while True:
                self._hold.remove(self._layout.segment(incarnation, segment))
                self._writer.removed(self._layout.bucket(incarnation))
                segment += 1

    def discard(self, incarnation: int) -> None:
        self._discarder.discard(incarnation)

    # Reading

    @property
    def last_incarnation(self) -> int:
        return self._entries.last_incarnation

    def load(self, name: bytes) -> Record | None:
        incarnation = self._entries.names.get(name)
        if incarnation is None:
            return None
        state = self._reader.log(incarnation).state
        return Record(state.head, state.producers)

    def scan(self, prefix: bytes, after: bytes, limit: int) -> list[tuple[bytes, Head | None]]:
        names = self._entries.order.scan(prefix, after, limit)
        return [(name, self._head(self._entries.names[name])) for name in names]

    def _head(self, incarnation: int) -> Head | None:
        try:
            return self._reader.head(incarnation)
        except StreamDamaged:
            return None

    def count(self, prefix: bytes) -> int:
        return self._entries.order.count(prefix)

    def mortal(self, after: int, limit: int) -> list[Head]:
        heads: list[Head] = []
        for incarnation in self._entries.mortal_after(after):
            with suppress(StreamDamaged):
                heads.append(self._reader.head(incarnation))
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

    def time_at(self, incarnation: int, offset: int) -> int:
        return self._reader.time_at(incarnation, offset)

    def messages(self, incarnation: int, start: int, end: int) -> Messages:
        return self._reader.messages(incarnation, start, end)

    def seek(self, incarnation: int, offset: int, count: int) -> tuple[int, int]:
        return self._reader.seek(incarnation, offset, count)

    def keeps(self, owner: int, blob: int) -> bool:
        return self._discarder.keeps(owner, blob)

    def pin(self) -> FilesPin:
        catalogues = catalogue_files(self._disk, self._folder)
        pin = FilesPin(self._folder, catalogues[-1].path if catalogues else None, self._hold, self._unpin)
        self._pins.add(pin)
        return pin

    def _unpin(self, pin: FilesPin, removable: list[Path]) -> None:
        self._pins.discard(pin)
        self._removals.add_files(removable)

    def close(self) -> None:
        """Let everything go. The next opening has nothing to do if this one has finished everything."""
        for pin in list(self._pins):
            pin.release()
        self._removals.close()
        clean = not (self._writer.failed or self._removals.failed or self._doubt.failure)
        clean = clean and self._reader.applied == self._writer.number
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
            self._catalogue.close(self._writer.number, self._entries.beginnings, clean=clean)
        except OSError as error:
            logger.warning("the catalogue could not be closed; the next opening looks the store through: %s", error)


def _doubts(contents: Contents) -> Doubts:
    """Give what is doubted of a store: after a crash, the ends of all logs."""
    return contents.doubts if contents.clean else replace(contents.doubts, ends=contents.generation + 1)
