"""The rebuild of a store whose base can't be read, from its segments, which name their streams, and from its journal.

Every stream gets a new incarnation, because its last bytes may have been in lost rows. Producers are not restored.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from everbrook.protocol.errors import quoted
from everbrook.protocol.state import Drop, Edit, Head, Identity, Kept, Snapshot, Write
from everbrook.storage.base_state import Opened
from everbrook.storage.check.stream_cut import clipped, inherited_loss, orphaned, raised_kept, without_snapshot
from everbrook.storage.checkpoint import Checkpoint
from everbrook.storage.chunk import Chunk, cut_run
from everbrook.storage.disk import Disk
from everbrook.storage.durable import FILE_DURABLE
from everbrook.storage.file_blobs import BLOBS
from everbrook.storage.journal_scan import Needed, log_files, read_journal
from everbrook.storage.lmdb_base import LmdbBase, open_base
from everbrook.storage.lost_found import LostAndFound
from everbrook.storage.manifest import BASE, JOURNAL, REBUILT, SEGMENTS, Manifest
from everbrook.storage.recent import Recent
from everbrook.storage.recovery import replay
from everbrook.storage.segments import (
    CHUNK_MAGIC,
    pack_segment_header,
    parse_chunk,
    parse_segment_header,
    parse_segment_name,
)
from everbrook.storage.tuning import StorageTuning

_MAX_HEADER_BYTES = 1 << 18


class NewParts:
    """Parts of a store that are rebuilt in a draft folder, and replace the old parts when they are complete.

    The old parts are set aside. A crash before the draft is complete changes nothing; after a later crash the next
    repair finishes the replacement.
    """

    def __init__(self, disk: Disk, folder: Path, lost: LostAndFound) -> None:
        self._disk = disk
        self._folder = folder
        self._lost = lost
        self.draft = folder / f"{REBUILT}.draft"

    def begin(self, parts: Iterable[str]) -> None:
        """Make the folders of parts in a new draft. The remains of an interrupted repair are removed."""
        self._remove(self.draft)
        for part in parts:
            self._disk.make_folder(self.draft / part)

    def publish(self) -> None:
        """Rename the draft, which marks it as complete, and move its parts to their places."""
        self._disk.sync_folder(self.draft / BASE)
        self._disk.sync_folder(self.draft)
        self._disk.rename(self.draft, self._folder / REBUILT)
        self._disk.sync_folder(self._folder)
        self.finish()

    def finish(self) -> None:
        """Move the parts of a complete draft to their places, if there is one."""
        rebuilt = self._folder / REBUILT
        for part in (SEGMENTS, BLOBS, JOURNAL, BASE):
            if (rebuilt / part).is_dir():
                if (self._folder / part).is_dir():
                    self._lost.take(self._folder / part)
                self._disk.rename(rebuilt / part, self._folder / part)
                self._disk.sync_folder(self._folder)
        self._remove(rebuilt)

    def _remove(self, folder: Path) -> None:
        if folder.is_dir():
            for path in sorted(folder.rglob("*"), reverse=True):
                if path.is_dir():
                    path.rmdir()
                else:
                    self._disk.remove(path)
            folder.rmdir()
            self._disk.sync_folder(folder.parent)


class FoundStream(Struct):
    """A stream that was found in segments: its head as far as they show it, and its files."""

    head: Head
    files: list[Path]


class Rebuild:
    """Rebuilds a store."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        manifest: Manifest,
        tuning: StorageTuning,
        new_incarnation: Callable[[], int],
        parts: NewParts,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._manifest = manifest
        self._tuning = tuning
        self._new_incarnation = new_incarnation
        self._parts = parts
        self._found: dict[int, FoundStream] = {}
        self._recent = Recent()
        self._ended: set[int] = set()
        self._begin: dict[int, int] = {}
        """The offsets at which the existing bytes of streams begin."""
        self._last, self._last_use = 0, 0

    def run(self) -> list[str]:
        """Rebuild the store. Returns lines for the user about its streams."""
        self._find_segments()
        self._replay_journal()
        lines = self._write_draft()
        self._parts.publish()
        return [
            *lines,
            "each of them has a new incarnation, is open whether it was closed or not, and knows no producers",
            "not restored: producers, closure, the state of expiry, snapshots, and bytes that were in the base alone",
        ]

    # The remains of the store

    def _find_segments(self) -> None:
        files: dict[int, list[tuple[int, Path]]] = {}
        for path in (self._folder / SEGMENTS).rglob("*"):
            if parts := parse_segment_name(path.name):
                files.setdefault(parts[0], []).append((parts[1], path))
        for incarnation, named in files.items():
            paths = [path for _, path in sorted(named)]
            headers = (self._disk.read(path, 0, _MAX_HEADER_BYTES) for path in paths)
            identity = next(filter(None, map(parse_segment_header, headers)), None)
            if identity and identity.incarnation == incarnation:
                self._add(identity, paths)

    def _add(self, identity: Identity, paths: list[Path]) -> None:
        """Add a stream with the chunks that are contiguous in its segments."""
        head: Head | None = None
        for chunk in self._chunks(identity, paths):
            if head is None:
                self._begin[identity.incarnation] = chunk.start
                cut = chunk.start > identity.first_own_offset
                kept = Kept(chunk.start, Snapshot(chunk.start, identity.created_at)) if cut else identity.first_kept
                head = Head(identity, chunk.start, identity.created_at, kept=kept)
            head = replace(head, tail=chunk.start + len(chunk.data), written_at=chunk.index.times[-1])
        if head:
            self._found[identity.incarnation] = FoundStream(head, paths)

    def _chunks(self, identity: Identity, paths: list[Path]) -> Iterator[Chunk]:
        """Yield the chunks of a stream up to the first gap."""
        end: int | None = None
        for path in paths:
            data = self._disk.read(path)
            position = len(pack_segment_header(identity))
            if not data.startswith(CHUNK_MAGIC, position):
                position = data.find(CHUNK_MAGIC)
            while position >= 0 and (parsed := parse_chunk(data, position, identity.incarnation)):
                chunk, position = parsed
                if end is not None and chunk.start != end:
                    return
                end = chunk.start + len(chunk.data)
                yield chunk

    def _replay_journal(self) -> None:
        """Apply the changes of the journal. Some of their bytes may be in segments too."""
        folder = self._folder / JOURNAL
        files = log_files(self._disk, folder)
        if not files:
            return
        first = min(file.first for file in files) - 1
        recovered = read_journal(self._disk, folder, self._manifest.salt, first, Needed())
        # The rest of a change that can't be parsed is ignored.
        replay(recovered, self._head, self._take, lambda lost: self._ended.update(lost.streams), lambda *_: None)
        self._last = max(recovered.last, *(file.first for file in files))
        self._last_use = recovered.last_use

    def _head(self, incarnation: int) -> Head | None:
        if incarnation in self._recent.streams:
            return self._recent.streams[incarnation].head
        return self._found[incarnation].head if incarnation in self._found else None

    def _take(self, _number: int, edit: Edit) -> None:
        """Apply an edit if all bytes before it are known, without the bytes that are known already."""
        incarnation, head = edit.head.identity.incarnation, self._head(edit.head.identity.incarnation)
        if isinstance(edit, Drop):
            self._found.pop(incarnation, None)
            self._recent.apply(edit)
            return
        if head is None and not edit.created:
            return
        have = head.tail if head else edit.head.identity.first_own_offset
        known = have - (edit.head.tail - len(edit.data))
        if known < 0:
            self._ended.add(incarnation)
        if incarnation in self._ended or edit.head.tail < have:
            return
        ends = tuple(end for end in edit.ends if end > have)
        self._begin.setdefault(incarnation, have)
        self._recent.apply(Write(edit.head, edit.data[known:], ends, created=edit.created, cut=edit.cut))

    # The new store

    def _write_draft(self) -> list[str]:
        in_segments = self._manifest.mode == FILE_DURABLE.store
        self._parts.begin((BASE, BLOBS, JOURNAL, SEGMENTS) if in_segments else (BASE, BLOBS, JOURNAL))
        with closing(open_base(self._disk, self._parts.draft, self._tuning, in_segments=in_segments)) as base:
            lines = list(self._write_streams(base))
            self._write_state(base)
        return lines

    def _write_streams(self, base: LmdbBase) -> Iterator[str]:
        streams = {each: head for each in {*self._found, *self._recent.streams} if (head := self._head(each))}
        # Several incarnations of a name may have left segments. The youngest one gets the name.
        youngest = {streams[each].identity.name: each for each in sorted(streams)}
        moved: dict[int, Head] = {}
        # In the order of incarnations: a source is older than its forks, and must be moved before them.
        for incarnation in sorted(streams):
            head = streams[incarnation]
            if youngest[head.identity.name] != incarnation:
                yield f"another stream that was called {quoted(head.identity.name)} is set aside: {incarnation:016x}"
                continue
            new = moved[incarnation] = self._moved(head, moved)
            self._write_stream(base, head.identity, new)
            yield f"stream {quoted(head.identity.name)} has the offsets {new.kept.earliest} to {new.tail}"

    def _moved(self, head: Head, moved: dict[int, Head]) -> Head:
        """Return the head of the new incarnation of a stream. Its source must have been moved before it."""
        old, fork = head.identity.incarnation, head.identity.fork
        source = moved.get(fork.source_incarnation) if fork else None
        if fork and source:
            # A fork has lost the bytes that its source has lost.
            floor = min(self._begin[fork.source_incarnation], fork.offset)
            kept, first_kept = (_plain(raised_kept(each, floor, 0)) for each in (head.kept, fork.kept))
            lost_from = inherited_loss(replace(head, kept=kept), fork, source.tail)
            tail = head.tail if lost_from is None else lost_from
            offset = min(fork.offset, tail)
            place = replace(fork, source_incarnation=source.identity.incarnation, offset=offset, kept=first_kept)
            head = replace(head, identity=replace(head.identity, fork=place), tail=tail, kept=kept)
            self._begin[old] = min(floor, self._begin[old])
        elif fork:
            head = next(orphaned(head, lambda _: [], self._head), head)
        identity = replace(head.identity, incarnation=self._new_incarnation())
        return Head(identity, head.tail, head.written_at, kept=_plain(head.kept))

    def _write_stream(self, base: LmdbBase, old: Identity, new: Head) -> None:
        recent = Recent()
        recent.apply(Write(new, created=True))
        with self._checkpoint(base) as checkpoint:
            checkpoint.take(recent, {})
            for chunk in self._restored(old, new.tail):
                index = clipped(chunk.index, chunk.start + len(chunk.data), new.tail)
                checkpoint.append(new.identity, [Chunk(chunk.start, chunk.data, index)])
            checkpoint.commit()

    def _restored(self, identity: Identity, tail: int) -> Iterator[Chunk]:
        """Yield the chunks of a stream before its new tail: those of segments, then those of the journal."""
        found, run = self._found.get(identity.incarnation), self._recent.run(identity.incarnation)
        stored = self._chunks(identity, found.files) if found else iter(())
        recent = cut_run(run, self._tuning.chunk_bytes) if run else []
        for chunk in chain(stored, recent):
            if chunk.start + len(chunk.data) <= tail:
                yield chunk

    def _write_state(self, base: LmdbBase) -> None:
        with self._checkpoint(base) as checkpoint:
            checkpoint.set_applied(self._last, self._new_incarnation())
            # No file of the journal is needed any more: its changes are in the new base.
            checkpoint.set_needed(Needed(self._last_use + 1, self._last_use))
            checkpoint.set_opened(Opened(sync=True, boot=""), self._manifest)
            checkpoint.commit()

    def _checkpoint(self, base: LmdbBase) -> Checkpoint:
        return Checkpoint(base, self._tuning)


def _plain(kept: Kept) -> Kept:
    """Remove a snapshot with bytes from what is kept: its blob is not restored."""
    return kept if kept.snapshot is None or kept.snapshot.automatic else without_snapshot(kept)
