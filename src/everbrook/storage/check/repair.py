"""The repair of a store: keeps the readable data, and sets damaged bytes aside.

The steps are atomic: a base that can't be read is rebuilt; the journal is taken into the base; rows that can be derived
from others are written again; damaged streams are cut. An interrupted repair can be run again: it continues with the
present state of the store.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import lmdb
from msgspec.structs import replace

from everbrook.protocol.errors import quoted
from everbrook.protocol.state import Head, Kept
from everbrook.storage.base_rows import INCARNATION, PLACE, Database, unseal
from everbrook.storage.base_state import MANIFEST_COPY
from everbrook.storage.check.base_copy import copy_base, is_copyable
from everbrook.storage.check.base_walk import walk_base
from everbrook.storage.check.rebuild import NewParts, Rebuild
from everbrook.storage.check.report import Progress, Read, Report, inspect_store, read_store
from everbrook.storage.check.row_repair import RowRepair, repair_meta
from everbrook.storage.check.stream_cut import StreamCut, without_snapshot
from everbrook.storage.checkpoint import Checkpoint
from everbrook.storage.chunk import Location, is_inline, parse_location
from everbrook.storage.damage import Damaged
from everbrook.storage.disk import Disk, Lock, OsDisk
from everbrook.storage.durable import ACID, FILE_DURABLE, DurableStorage
from everbrook.storage.file_blobs import BLOBS, blob_path
from everbrook.storage.journal_scan import log_files
from everbrook.storage.lmdb_base import LmdbBase, open_base, open_environment
from everbrook.storage.lost_found import LostAndFound
from everbrook.storage.manifest import (
    BASE,
    FORMAT,
    JOURNAL,
    MANIFEST,
    SEGMENTS,
    Manifest,
    StoreError,
    find_manifest,
    format_manifest,
    lock_folder,
    parse_manifest,
    write_manifest,
)
from everbrook.storage.recent import Recent, RecentStream
from everbrook.storage.segments import pack_chunk, pack_segment_header, parse_segment_name, segment_path
from everbrook.storage.tuning import DEFAULT_TUNING, StorageTuning

# A round may reveal further damage for the next one. The bound ends a repair that makes no progress.
MAX_ROUNDS = 3
_TIME_SHIFT = 20


class Repair:
    """Repairs one store, which remains locked until `close`."""

    def __init__(
        self,
        folder: Path,
        *,
        now: int,
        salt: int,
        boot: str = "",
        tuning: StorageTuning = DEFAULT_TUNING,
        read: Read = read_store,
    ) -> None:
        """Lock the store in a folder. `now` is the time, `salt` a random number for a new manifest.

        `read` checks the store.
        """
        self._lock = lock_folder(OsDisk(), folder)
        self._disk = _LockedDisk()
        self._folder = folder
        self._now = now
        self._salt = salt
        self._boot = boot
        self._tuning = tuning
        self._read = read
        self._incarnation = 0
        self._lost = LostAndFound(self._disk, folder)
        self._parts = NewParts(self._disk, folder, self._lost)

    def close(self) -> None:
        self._lock.release()

    def check(self, progress: Progress) -> Report:
        """Check the store. If an interrupted repair had rebuilt parts of it, their replacement is finished first."""
        self._parts.finish()
        return self._read(self._folder, progress, inspect_store, self._boot)

    def run(self, report: Report, progress: Progress, *, drop: bool = False) -> Iterator[str]:
        """Repair the damage in a report. Yields lines for the user. `drop`: damaged streams are deleted, not cut."""
        manifest = self._manifest()
        if not report.base_readable:
            yield from self._make_base(manifest)
            report = self.check(progress)
        yield from self._take_in_journal(manifest, report)
        for _ in range(MAX_ROUNDS):
            report = self.check(progress)
            if report.sound or not report.base_readable:
                break
            yield from self._mend(report, manifest, drop=drop)
        yield from self._set_unknown_aside(manifest)

    def _make_base(self, manifest: Manifest) -> Iterator[str]:
        """Make a new base: a copy of all rows if they can be read, or a rebuild from segments and the journal."""
        if is_copyable(self._folder):
            yield copy_base(self._folder, self._parts)
            return
        rebuild = Rebuild(self._disk, self._folder, manifest, self._tuning, self._new_incarnation, self._parts)
        yield from rebuild.run()
        if manifest.mode == ACID.store:
            yield "an acid store has its bytes in the base: restore a backup to get the bytes that are lost"

    def _new_incarnation(self) -> int:
        """Return an unused incarnation. It begins with the time, like the engine's."""
        self._incarnation = max(self._incarnation + 1, self._now << _TIME_SHIFT)
        return self._incarnation

    def _manifest(self) -> Manifest:
        """Return the copy of the manifest, or the manifest itself. If both are lost, write a new one.

        The new salt makes the journal unreadable, because its checksums depend on the old one.
        """
        found = find_manifest(self._disk, self._folder) if (self._folder / MANIFEST).is_file() else None
        mode = FILE_DURABLE.store if (self._folder / SEGMENTS).is_dir() else ACID.store
        manifest = self._manifest_copy() or found or Manifest(FORMAT, mode, self._salt)
        if manifest != found:
            write_manifest(self._disk, self._folder, manifest)
        return manifest

    def _manifest_copy(self) -> Manifest | None:
        """Return the manifest's copy in the base, which has a checksum; None if it can't be read."""
        # LMDB must not open a damaged tree in this process, which a damaged page may end.
        if walk_base(self._folder):
            return None
        with open_environment(self._folder / BASE) as env:
            try:
                # `create=False`: if the name of the database is damaged, a new one would hide its rows.
                database = env.open_db(Database.META, create=False)
            except lmdb.Error:
                return None
            with env.begin() as transaction:
                sealed = transaction.get(MANIFEST_COPY, db=database)
        copy = unseal(MANIFEST_COPY, bytes(sealed)) if sealed is not None else None
        return parse_manifest(copy) if copy else None

    # The journal

    def _take_in_journal(self, manifest: Manifest, report: Report) -> Iterator[str]:
        """Take the readable changes of the journal into the base, as a server does at its end."""
        files = log_files(self._disk, self._folder / JOURNAL)
        self._disk.make_folder(self._folder / JOURNAL)
        with open_environment(self._folder / BASE) as env:
            copy, last = format_manifest(manifest), self._new_incarnation()
            yield from list(repair_meta(env, copy, last, journal_empty=not files))
        if any(damage.place.startswith(JOURNAL) for damage in report.damages):
            for file in files:
                self._lost.copy(file.path)
                yield f"{file.path.name} is kept in {self._lost.folder.name}"
        mode = ACID if manifest.mode == ACID.store else FILE_DURABLE
        storage = DurableStorage(
            self._disk, self._folder, mode, salt=manifest.salt, boot=self._boot, tuning=self._tuning
        )
        self._incarnation = max(self._incarnation, storage.last_incarnation)
        # Without the refusal, `close` makes a checkpoint and removes the journal, whose loss is then accepted.
        refused, storage.refusal = storage.refusal, None
        storage.close()
        if log_files(self._disk, self._folder / JOURNAL):
            raise StoreError(
                f"the journal of {self._folder} can't be taken into its base: free some space on the disk, and run the "
                "repair again"
            )
        if refused:
            yield "the readable changes of the journal are in the base, and the store takes changes again"

    # The base

    def _base(self, manifest: Manifest) -> LmdbBase:
        in_segments = manifest.mode == FILE_DURABLE.store
        return open_base(self._disk, self._folder, self._tuning, in_segments=in_segments)

    def _mend(self, report: Report, manifest: Manifest, *, drop: bool) -> Iterator[str]:
        with closing(self._base(manifest)) as base:
            cutter = StreamCut(self._disk, self._folder, base, self._tuning, self._new_incarnation, self._lost)
            yield from list(RowRepair(base, cutter, self._lost).run())
            yield from self._mend_snapshots(base, report)
            yield from repair_segments(base, self._disk, report)
            for stream in sorted(report.streams.values(), key=lambda stream: stream.incarnation):
                if stream.tail is not None:
                    incarnation = stream.incarnation
                    yield from cutter.drop(incarnation) if drop else cutter.cut(incarnation, stream.offset)

    def _mend_snapshots(self, base: LmdbBase, report: Report) -> Iterator[str]:
        """Remove damaged snapshots. The bytes that were cut because of them stay removed."""
        places = {damage.place for damage in report.damages if damage.place.startswith(f"{BLOBS}/")}
        if not places:
            return
        recent = Recent()
        for key, _ in list(base.rows(Database.STREAMS)):
            head = base.head(incarnation := INCARNATION.unpack(key)[0])
            if head and (mended := _without_snapshots(head, places)) != head:
                recent.streams[incarnation] = RecentStream(mended, created=False)
                yield f"the snapshot of stream {quoted(head.identity.name)} is given up"
        with Checkpoint(base, self._tuning) as checkpoint:
            checkpoint.take(recent, {})
            checkpoint.commit()
        for place in places:
            if (self._folder / place).is_file():
                self._lost.take(self._folder / place)

    def _set_unknown_aside(self, manifest: Manifest) -> Iterator[str]:
        """Move segments to which the base does not refer to `lost+found`."""
        if manifest.mode != FILE_DURABLE.store:
            return
        with closing(self._base(manifest)) as base:
            known = segments_of(base)
        for path in sorted(path for path in (self._folder / SEGMENTS).rglob("*") if path.is_file()):
            if parse_segment_name(path.name) not in known:
                self._lost.take(path)
                yield f"{path.name}, which nothing refers to, is kept in {self._lost.folder.name}"


def _without_snapshots(head: Head, places: set[str]) -> Head:
    """Return a head without references to the blobs in `places`."""

    def mended(kept: Kept) -> Kept:
        snapshot = kept.snapshot
        if snapshot is None or snapshot.automatic:
            return kept
        path = blob_path(Path(BLOBS), snapshot.owner, snapshot.blob)
        return without_snapshot(kept) if str(path) in places else kept

    identity, fork = head.identity, head.identity.fork
    if fork:
        identity = replace(identity, fork=replace(fork, kept=mended(fork.kept)))
    return replace(head, identity=identity, kept=mended(head.kept))


class _LockedDisk(OsDisk):
    """The file system, with a lock that does nothing: the repair has locked the store already."""

    def lock(self, path: Path) -> Lock:  # noqa: ARG002 - the signature of a disk
        return _NoLock()


class _NoLock:
    def release(self) -> None:
        """The repair releases the lock itself."""


def segments_of(base: LmdbBase) -> set[tuple[int, int]]:
    """Return the segments that the base refers to: their incarnations and first offsets."""
    return {(PLACE.unpack(key)[0], location.segment) for key, location, _ in _located(base)}


def repair_segments(base: LmdbBase, disk: Disk, report: Report) -> Iterator[str]:
    """Write the headers, indexes and checksums in segments again. Streams with lost bytes are cut later."""
    damages = [damage for damage in report.damages if damage.place.startswith(f"{SEGMENTS}/")]
    for incarnation in sorted({stream for damage in damages for stream in damage.streams} - report.streams.keys()):
        head = base.head(incarnation)
        if head is None:
            continue
        header, begun = pack_segment_header(head.identity), set()
        for key, location, checksums in list(_located(base, INCARNATION.pack(incarnation))):
            start = PLACE.unpack(key)[1]
            try:
                data = base.chunks.read(incarnation, start, start + location.length)
            except Damaged:
                break
            index = unseal(key, dict(base.rows(Database.INDEXES, key)).get(key, b""))
            if index is None:
                break
            packed, data_from = pack_chunk(key, index, data, checksums)
            begin = location.position - data_from
            with closing(disk.open(segment_path(base.segments.folder, incarnation, location.segment))) as file:
                if location.segment not in begun and len(header) <= begin:
                    begun.add(location.segment)
                    file.write_at(0, header)
                file.write_at(begin, packed)
                file.sync()
        yield f"the segments of stream {quoted(head.identity.name)} are written again; its bytes are whole"


def _located(base: LmdbBase, prefix: bytes = b"") -> Iterator[tuple[bytes, Location, bytes]]:
    """Yield the keys, locations and checksums of the chunks in segments."""
    for key, row in base.rows(Database.CHUNKS, prefix):
        if not is_inline(row) and (located := parse_location(key, row)):
            yield key, *located
