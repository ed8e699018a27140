"""Usage: what the whole store and each bucket hold, in the newest state, so that a quota is exact.

It is measured when it is first asked for, from the heads of all streams concerned, and updated with each change from
then on. A stream holds its own bytes from the first one that it or a fork of it retains, its snapshot, and the
snapshots that forks of it began with. So a stream makes no room by cutting what its forks need; the end of the forks
does.

A fork needs what its source retained when the fork was made: the bytes from there on, and the snapshot of that time. A
source only ever retains less, so that of its forks the oldest one needs the most bytes (`storage/api.py`).
"""

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct

from everbrook.protocol.path import bucket_of, bucket_prefix
from everbrook.protocol.state import Change, Drop, Head, Identity, Kept, Snapshot, Write


class Needs:
    """What the forks of one stream need of it. The oldest fork is entered first."""

    __slots__ = ("_blob_bytes", "_kept", "_snapshots", "_source", "_users")

    def __init__(self, source: int) -> None:
        self._source = source
        self._kept: dict[int, Kept] = {}
        self._snapshots: dict[int, Snapshot] = {}
        self._users: Counter[int] = Counter()
        self._blob_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def enter(self, fork: Identity) -> None:
        """Add a new fork."""
        self._kept[fork.incarnation] = fork.first_kept
        snapshot = self._published(fork.first_kept)
        if snapshot:
            self._users[snapshot.blob] += 1
            if self._users[snapshot.blob] == 1:
                self._snapshots[snapshot.blob] = snapshot
                self._blob_bytes += snapshot.size

    def take_out(self, fork: int) -> None:
        """Remove a fork that is gone."""
        kept = self._kept.pop(fork, None)
        snapshot = self._published(kept) if kept else None
        if snapshot:
            self._users[snapshot.blob] -= 1
            if not self._users[snapshot.blob]:
                del self._users[snapshot.blob], self._snapshots[snapshot.blob]
                self._blob_bytes -= snapshot.size

    def floor(self, earliest: int, without: int = 0) -> int:
        """Give from where on bytes are needed that the stream itself retains from `earliest` on."""
        oldest = next((kept for fork, kept in self._kept.items() if fork != without), None)
        return min(earliest, oldest.earliest) if oldest else earliest

    def snapshot_bytes(self, present: int, without: int = 0) -> int:
        """Give how many bytes the snapshots have that only forks need: not the one that is the stream's at present."""
        unneeded = {present}
        kept = self._kept.get(without)
        snapshot = self._published(kept) if kept else None
        if snapshot and self._users[snapshot.blob] == 1:
            unneeded.add(snapshot.blob)
        return self._blob_bytes - sum(self._snapshots[blob].size for blob in unneeded if blob in self._snapshots)

    def _published(self, kept: Kept) -> Snapshot | None:
        """Give the snapshot that a fork began with, if it is one of the source, rather than of a source of that."""
        snapshot = kept.snapshot
        return snapshot if snapshot and snapshot.owner == self._source else None


class Forks:
    """What is needed of all streams that have forks, by their incarnations."""

    def __init__(self) -> None:
        self._needs: dict[int, Needs] = {}

    def of(self, source: int) -> Needs | None:
        """Give what the forks of a stream need, if it has any."""
        return self._needs.get(source)

    def count(self, forks: Iterable[Identity]) -> None:
        """Replace what is known of the sources of these forks. They are all forks of those sources."""
        counted: dict[int, Needs] = {}
        for identity in sorted(forks, key=lambda fork: fork.incarnation):
            if identity.fork:
                source = identity.fork.source_incarnation
                counted.setdefault(source, Needs(source)).enter(identity)
        self._needs |= counted

    def follow(self, change: Change) -> None:
        """Add and remove the forks that a change creates and drops."""
        for edit in change:
            identity = edit.head.identity
            if identity.fork and isinstance(edit, Drop):
                self._take_out(identity.fork.source_incarnation, identity.incarnation)
            elif identity.fork and isinstance(edit, Write) and edit.created:
                source = identity.fork.source_incarnation
                self._needs.setdefault(source, Needs(source)).enter(identity)

    def _take_out(self, source: int, fork: int) -> None:
        needs = self._needs.get(source)
        if needs:
            needs.take_out(fork)
            if not needs:
                del self._needs[source]

    def forget(self) -> None:
        """Remove all forks."""
        self._needs.clear()


EVERYTHING = b""


class Held(Struct):
    """How many streams, and how many bytes."""

    streams: int = 0
    size: int = 0

    def add(self, streams: int, size: int) -> None:
        """Count more, or less."""
        self.streams += streams
        self.size += size


def size_of(head: Head, needs: Needs | None = None, without: int = 0) -> int:
    """Give how many bytes a stream holds whose forks have these `needs`, leaving out those of the fork `without`."""
    identity, snapshot, earliest = head.identity, head.kept.snapshot, head.kept.earliest
    published = snapshot is not None and snapshot.owner == identity.incarnation
    snapshot_bytes = snapshot.size if snapshot is not None and published else 0
    if needs:
        earliest = needs.floor(earliest, without)
        snapshot_bytes += needs.snapshot_bytes(snapshot.blob if snapshot is not None and published else 0, without)
    return max(0, head.tail - max(identity.first_own_offset, earliest)) + snapshot_bytes


Differences = dict[bytes, Held]


def _tally(found: Differences, name: bytes, streams: int, size: int) -> None:
    for scope in {EVERYTHING, bucket_of(name) or EVERYTHING}:
        found.setdefault(scope, Held()).add(streams, size)


class Usage:
    """What is held, by bucket id; `EVERYTHING` is the whole store."""

    def __init__(self, heads: Callable[[bytes], Iterable[Head]], head_of: Callable[[bytes], Head | None]) -> None:
        """`heads` gives the newest heads of all streams below a prefix, `head_of` that of one stream."""
        self._heads = heads
        self._head_of = head_of
        self._held: Differences = {}
        self._forks = Forks()

    def of(self, scope: bytes) -> Held:
        """Give what is held in a bucket, or in the whole store."""
        held = self._held.get(scope)
        if held is None:
            held = self._held[scope] = self._measure(scope)
        return held

    def _measure(self, scope: bytes) -> Held:
        held, prefix = Held(), bucket_prefix(scope) if scope else EVERYTHING
        forks = []
        for head in self._heads(prefix):
            held.add(1, size_of(head))
            if head.identity.fork:
                forks.append(head.identity)
        self._forks.count(forks)
        if forks:
            # A fork is in the bucket of its source, but may follow it in the scan: what forks need is known only now.
            for head in self._heads(prefix):
                if needs := self._forks.of(head.identity.incarnation):
                    held.add(0, size_of(head, needs) - size_of(head))
        return held

    def differences(self, change: Change) -> Differences:
        """Give by how much a change would increase or reduce what each scope holds.

        This is right for scopes that were measured before.
        """
        found: Differences = {}
        # A change ends at most one fork of a stream, and that before the stream itself.
        ended: dict[int, int] = {}
        for edit in change:
            identity = edit.head.identity
            before = None if not isinstance(edit, Drop) and edit.created else self._head_of(identity.name)
            size = -self._size(before, ended) if before else 0
            if isinstance(edit, Drop):
                _tally(found, identity.name, -1, size)
                self._end_fork(found, identity, ended)
            else:
                _tally(found, identity.name, int(edit.created), size + self._size(edit.head, ended))
        return found

    def _end_fork(self, found: Differences, identity: Identity, ended: dict[int, int]) -> None:
        """Count what a source holds less when a fork of it ends."""
        fork = identity.fork
        source = self._head_of(fork.source) if fork else None
        if fork and source and source.identity.incarnation == fork.source_incarnation:
            before = self._size(source, ended)
            ended[fork.source_incarnation] = identity.incarnation
            _tally(found, fork.source, 0, self._size(source, ended) - before)

    def _size(self, head: Head, ended: dict[int, int]) -> int:
        incarnation = head.identity.incarnation
        return size_of(head, self._forks.of(incarnation), ended.get(incarnation, 0))

    def follow(self, change: Change, differences: Differences) -> None:
        """Apply the differences of a change to what was measured."""
        self._forks.follow(change)
        for scope, difference in differences.items():
            held = self._held.get(scope)
            if held is not None:
                held.add(difference.streams, difference.size)

    def forget(self, scope: bytes | None = None) -> None:
        """Measure again when asked: a bucket was deleted, or changes were rolled back (`scope` is None: everything)."""
        if scope is None:
            self._held.clear()
            self._forks.forget()
        else:
            self._held.pop(scope, None)
