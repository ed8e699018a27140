"""The check of a store: every row of the base, the segments, the blobs and the journal, and their consistency.

The remains of a crash are not damage: a torn write, the files of an unfinished checkpoint, blobs and segments without
references. The journal is read by the same scan as at the start of a server.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from everbrook.protocol.errors import quoted
from everbrook.protocol.state import Head, Identity
from everbrook.storage.api import floor_of
from everbrook.storage.base_rows import (
    INCARNATION,
    PLACE,
    Database,
    is_producer,
    parse_mark,
    place_of,
    readable_head,
    unseal,
)
from everbrook.storage.base_state import OPENED, BaseState, is_whole, parse_opened, parse_state
from everbrook.storage.check.base_reader import BaseReader
from everbrook.storage.check.journal_replay import NO_CHANGES, JournalReplay
from everbrook.storage.check.payload_check import BlobCheck, ChunkCheck
from everbrook.storage.check.report import DamagedStream, Findings
from everbrook.storage.check.stream_cut import inherited_loss
from everbrook.storage.damage import DamageMark
from everbrook.storage.disk import OsDisk
from everbrook.storage.journal_scan import read_journal
from everbrook.storage.manifest import (
    JOURNAL,
    LOST_AND_FOUND,
    MANIFEST,
    REBUILT,
    Manifest,
    StoreError,
    find_manifest,
    parse_manifest,
)


class StoreCheck:
    """A check of a store, in this process. A damaged page of LMDB may end the process."""

    def __init__(self, folder: Path, findings: Findings, boot: str = "") -> None:
        """Check the store in a folder. `boot` is the id of this boot of the machine."""
        self._folder = folder
        self._findings = findings
        self._boot = boot
        self._made = (folder / JOURNAL).is_dir()
        self._base = BaseReader(folder, findings, made=self._made)
        self._chunks = ChunkCheck(folder, self._base, findings, self._damaged)
        self._blobs = BlobCheck(folder, findings)
        self._marks: dict[int, DamageMark] = {}
        self._replay = JournalReplay(self._base, findings, self._marks)

    def run(self) -> None:
        """Read the whole store, and report all bytes that do not verify."""
        try:
            if (self._folder / REBUILT).is_dir():
                self._findings.damage("a repair was interrupted: run it again", REBUILT)
                self._findings.refuse("a server does not start: a repair was interrupted")
            state = self._read_state()
            manifest = self._settled_manifest(state.manifest)
            if manifest and self._base.readable:
                self._read_marks()
                self._replay_journal(state, manifest.salt)
                self._report_marks()
            self._check_streams()
            self._check_names()
            self._check_producers()
            self._check_forks()
            self._check_mortal()
            self._chunks.run()
            self._blobs.run()
            self._count_lost_and_found()
        finally:
            self._chunks.close()
            self._base.close()

    # The store as a whole

    def _read_state(self) -> BaseState:
        """Return the readable rows of the state of the base."""
        meta: dict[bytes, bytes] = {}
        for key, sealed in self._base.rows(Database.META):
            value = unseal(key, sealed)
            if value is None or not is_whole(key, value):
                self._findings.damage(f"its row of {key.decode('utf-8', 'replace')!r} can't be read")
                self._findings.refuse("a server does not start: the metadata of the base can't be read")
            else:
                meta[key] = value
        return parse_state(meta)

    def _settled_manifest(self, kept: bytes) -> Manifest | None:
        """Return the manifest, or its copy in the base if they differ: the copy has a checksum."""
        path = self._folder / MANIFEST
        self._findings.at(path)
        manifest = find_manifest(OsDisk(), self._folder) if path.is_file() else None
        try:
            copy = parse_manifest(kept) if kept else None
        except msgspec.MsgspecError:
            copy = None
        if copy is None and manifest is None:
            self._findings.damage("it can't be read, and the base has no copy of it")
            self._findings.refuse("a server does not start: the manifest is lost")
        elif copy is not None and manifest is None:
            self._findings.damage("it can't be read; the next start restores it from its copy in the base")
        elif copy is not None and copy != manifest:
            self._findings.damage("it is not the one that the base has a copy of; the next start restores it")
        return copy or manifest

    def _replay_journal(self, state: BaseState, salt: int) -> None:
        journal = self._folder / JOURNAL
        self._findings.at(journal)
        if not self._made:
            if state.applied:
                self._findings.damage("it is missing")
                self._findings.refuse("a server does not start: there is no journal")
            return
        opened = None
        try:
            opened = parse_opened(state.opened)
        except StoreError:
            self._findings.damage("how the store was opened last can't be read", place_of(Database.META, OPENED))
            self._findings.refuse(NO_CHANGES)
        self._replay.take(read_journal(OsDisk(), journal, salt, state.applied, state.needed), opened, self._boot)
        for head in filter(None, self._replay.heads.values()):
            self._count(head)
        self._findings.advance(sum(path.stat().st_size for path in journal.iterdir()))

    def _read_marks(self) -> None:
        for key, sealed in self._base.rows(Database.DAMAGED):
            if len(key) != INCARNATION.size:
                self._unreadable(Database.DAMAGED, key)
                continue
            (incarnation,) = INCARNATION.unpack(key)
            self._marks[incarnation] = parse_mark(unseal(key, sealed))

    def _report_marks(self) -> None:
        for incarnation, mark in self._marks.items():
            if self._replay.heads.get(incarnation, mark) is not None:
                self._damaged(
                    incarnation, mark.offset, mark.reason, place_of(Database.DAMAGED, INCARNATION.pack(incarnation))
                )

    def _count_lost_and_found(self) -> None:
        folder = self._folder / LOST_AND_FOUND
        count = sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0
        if count:
            self._findings.remark(
                f"{count} files are in {LOST_AND_FOUND}/, which has the bytes that were cut off or damaged"
            )

    # Reports

    def _unreadable(self, database: bytes, key: bytes) -> None:
        self._findings.damage("the row can't be read", place_of(database, key))

    def _damaged(self, incarnation: int, offset: int, reason: str, place: str) -> None:
        """Report that the bytes of a stream can't be read from an offset on. The journal may have dropped it since."""
        if incarnation in self._replay.heads and self._replay.heads[incarnation] is None:
            self._findings.damage(f"{reason}; its stream {incarnation:016x} is dropped by the journal", place)
            return
        head = self._replay.head(incarnation)
        self._findings.damaged_stream(DamagedStream.of(incarnation, head, offset, reason), place)

    def _count(self, head: Head) -> None:
        first = max(head.identity.first_own_offset, head.kept.earliest)
        self._findings.tally.add(head.tail - min(head.tail, first))
        self._blobs.add(head)

    # Rows of streams

    def _check_streams(self) -> None:
        for key, sealed in self._base.rows(Database.STREAMS):
            place = place_of(Database.STREAMS, key)
            if len(key) != INCARNATION.size:
                self._unreadable(Database.STREAMS, key)
                continue
            (incarnation,), head = INCARNATION.unpack(key), readable_head(unseal(key, sealed), whole=True)
            if head is None or head.identity.incarnation != incarnation:
                reason = "its row can't be read" if head is None else "its row is that of another stream"
                self._findings.damaged_stream(
                    DamagedStream(incarnation, self._name_of(incarnation), 0, None, reason), place
                )
                continue
            if incarnation not in self._replay.heads:
                self._count(head)
            for problem in self._problems_around(head):
                self._findings.damage(f"stream {quoted(head.identity.name)}: {problem}", place, (incarnation,))
            self._check_first(head, place)
            self._check_inherited(head, place)

    def _name_of(self, incarnation: int) -> bytes | None:
        """Find the name that leads to a stream whose row is lost."""
        packed = INCARNATION.pack(incarnation)
        return next((name for name, sealed in self._base.rows(Database.NAMES) if unseal(name, sealed) == packed), None)

    def _problems_around(self, head: Head) -> Iterator[str]:
        """Yield the inconsistencies between a stream and the rows about it."""
        identity, key = head.identity, INCARNATION.pack(head.identity.incarnation)
        if head.tail < identity.first_own_offset:
            yield f"its tail {head.tail} is before its first offset {identity.first_own_offset}"
        if head.kept.earliest > head.tail:
            yield f"its earliest offset {head.kept.earliest} is behind its tail {head.tail}"
        if identity.mortal and self._base.sealed(Database.MORTAL, key) is None:
            yield "it has a lifetime or a retention policy, and no row in `mortal`"
        if self._base.sealed(Database.NAMES, identity.name) != key:
            yield "its name does not lead to it"
        if identity.fork:
            source = identity.fork.source_incarnation
            if self._base.sealed(Database.FORKS, PLACE.pack(source, identity.incarnation)) is None:
                yield f"it is a fork that is not entered under its source {source:016x}"

    def _check_first(self, head: Head, place: str) -> None:
        """Check that the first chunk of a stream exists."""
        incarnation, floor = head.identity.incarnation, self._floor(head)
        chunks = self._base.with_prefix(Database.CHUNKS, INCARNATION.pack(incarnation))
        first = next((PLACE.unpack(key)[1] for key in chunks), None)
        if head.tail > floor and (first is None or first > floor):
            self._damaged(incarnation, floor, "its first bytes are missing", place)

    def _check_inherited(self, head: Head, place: str) -> None:
        """Check that the source of a fork has the bytes that the fork inherits."""
        now = self._replay.head(head.identity.incarnation)
        fork = now.identity.fork if now else None
        source = self._replay.head(fork.source_incarnation) if fork else None
        if now and fork and source and (lost_from := inherited_loss(now, fork, source.tail)) is not None:
            self._damaged(now.identity.incarnation, lost_from, "its source ends before it was forked off", place)

    def _floor(self, head: Head) -> int:
        """Return the offset from which on a stream's bytes must exist. The bytes before it may be discarded."""
        incarnation = head.identity.incarnation
        now = self._replay.head(incarnation)
        if now is None:
            return head.tail
        oldest: Identity | None = None
        if now.kept.earliest:
            forks = (
                PLACE.unpack(key)[1] for key in self._base.with_prefix(Database.FORKS, INCARNATION.pack(incarnation))
            )
            living = (fork.identity for each in forks if (fork := self._replay.head(each)))
            made = (fork for fork in self._replay.forks.get(incarnation, ()) if self._replay.head(fork.incarnation))
            oldest = next(living, None) or next(made, None)
        return max(head.identity.first_own_offset, floor_of(now, oldest))

    def _check_names(self) -> None:
        for name, sealed in self._base.rows(Database.NAMES):
            packed, place = unseal(name, sealed), place_of(Database.NAMES, name)
            if packed is None or len(packed) != INCARNATION.size:
                self._findings.damage(f"the row of name {quoted(name)} can't be read", place)
                continue
            (incarnation,) = INCARNATION.unpack(packed)
            head = self._base.head(incarnation)
            if head is None or head.identity.name != name:
                which = f"stream {incarnation:016x}"
                self._findings.damage(f"name {quoted(name)} leads to {which}, which is not it", place, (incarnation,))

    def _check_producers(self) -> None:
        for key, sealed in self._base.rows(Database.PRODUCERS):
            packed, stream = unseal(key, sealed), key[: INCARNATION.size]
            if not is_producer(packed):
                producer = quoted(key[INCARNATION.size :])
                problem = f"the row of producer {producer} of stream {stream.hex()} can't be read"
                self._findings.damage(problem, place_of(Database.PRODUCERS, key))
            elif self._base.get(Database.STREAMS, stream) is None:
                self._findings.damage("its stream is missing", place_of(Database.PRODUCERS, key))

    def _check_forks(self) -> None:
        for key, sealed in self._base.rows(Database.FORKS):
            if len(key) != PLACE.size or unseal(key, sealed) is None:
                self._unreadable(Database.FORKS, key)
                continue
            source, incarnation = PLACE.unpack(key)
            fork = self._base.head(incarnation)
            entered = fork is not None and fork.identity.fork and fork.identity.fork.source_incarnation == source
            if not entered or self._base.get(Database.STREAMS, INCARNATION.pack(source)) is None:
                self._findings.damage(
                    f"stream {incarnation:016x} is no fork of stream {source:016x}", place_of(Database.FORKS, key)
                )

    def _check_mortal(self) -> None:
        for key, sealed in self._base.rows(Database.MORTAL):
            readable = len(key) == INCARNATION.size and unseal(key, sealed) is not None
            head = self._base.head(INCARNATION.unpack(key)[0]) if readable else None
            if head is None or not head.identity.mortal:
                self._findings.damage("no stream with a lifetime or a retention policy", place_of(Database.MORTAL, key))
