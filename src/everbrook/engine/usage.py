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

from msgspec import Struct, field

from everbrook.protocol.path import bucket_of, bucket_prefix
from everbrook.protocol.state import Change, Drop, Head, Identity, Kept, Snapshot, Write


class Needs(Struct):
    """What the forks of one stream need of it. The oldest fork is entered first."""

    source: int
    kept: dict[int, Kept] = {}
    """What each fork began with."""
    snapshots: dict[int, Snapshot] = {}
    users: Counter[int] = field(default_factory=Counter)
    """How many forks began with each of the snapshots."""
    blob_bytes: int = 0

    def __len__(self) -> int:
        return len(self.kept)

    def enter(self, fork: Identity) -> None:
        """Add a new fork."""
        self.kept[fork.incarnation] = fork.first_kept
        snapshot = self._published(fork.first_kept)
        if snapshot:
            self.users[snapshot.blob] += 1
            if self.users[snapshot.blob] == 1:
                self.snapshots[snapshot.blob] = snapshot
                self.blob_bytes += snapshot.size

    def take_out(self, fork: int) -> None:
        """Remove a fork that is gone."""
        kept = self.kept.pop(fork, None)
        snapshot = self._published(kept) if kept else None
        if snapshot:
            self.users[snapshot.blob] -= 1
            if not self.users[snapshot.blob]:
                del self.users[snapshot.blob], self.snapshots[snapshot.blob]
                self.blob_bytes -= snapshot.size

    def without(self, fork: int) -> "Needs":
        """Return what the other forks need."""
        others = Needs(self.source, self.kept.copy(), self.snapshots.copy(), self.users.copy(), self.blob_bytes)
        others.take_out(fork)
        return others

    def floor(self, earliest: int) -> int:
        """Return from where on bytes are needed that the stream itself retains from `earliest` on."""
        oldest = next(iter(self.kept.values()), None)
        return min(earliest, oldest.earliest) if oldest else earliest

    def snapshot_bytes(self, present: int) -> int:
        """Return the bytes of the snapshots that only forks need, without the present snapshot of the stream."""
        snapshot = self.snapshots.get(present)
        return self.blob_bytes - (snapshot.size if snapshot else 0)

    def _published(self, kept: Kept) -> Snapshot | None:
        """Return the snapshot that a fork began with, if it is one of the source, rather than of a source of that."""
        snapshot = kept.snapshot
        return snapshot if snapshot and snapshot.owner == self.source else None


class Forks:
    """What is needed of all streams that have forks, by their incarnations."""

    def __init__(self) -> None:
        self._needs: dict[int, Needs] = {}

    def of(self, source: int) -> Needs | None:
        """Return what the forks of a stream need, if it has any."""
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


def size_of(head: Head, needs: Needs | None = None) -> int:
    """Return how many bytes a stream holds whose forks have these `needs`."""
    identity, snapshot, earliest = head.identity, head.kept.snapshot, head.kept.earliest
    published = snapshot is not None and snapshot.owner == identity.incarnation
    snapshot_bytes = snapshot.size if snapshot is not None and published else 0
    if needs:
        earliest = needs.floor(earliest)
        snapshot_bytes += needs.snapshot_bytes(snapshot.blob if snapshot is not None and published else 0)
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
        """Return what is held in a bucket, or in the whole store."""
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
        """Return by how much a change would increase or reduce what each scope holds.

        This is right for scopes that were measured before.
        """
        found: Differences = {}
        # What is needed of streams after the edits so far, where a fork ended: a stream may end after its last fork.
        left: dict[int, Needs] = {}
        for edit in change:
            identity = edit.head.identity
            before = None if not isinstance(edit, Drop) and edit.created else self._head_of(identity.name)
            size = -self._size(before, left) if before else 0
            if isinstance(edit, Drop):
                _tally(found, identity.name, -1, size)
                self._end_fork(found, identity, left)
            else:
                _tally(found, identity.name, int(edit.created), size + self._size(edit.head, left))
        return found

    def _end_fork(self, found: Differences, identity: Identity, left: dict[int, Needs]) -> None:
        """Count what a source holds less when a fork of it ends."""
        fork = identity.fork
        source = self._head_of(fork.source) if fork else None
        if fork and source and source.identity.incarnation == fork.source_incarnation:
            before = self._size(source, left)
            if needs := self._needs(fork.source_incarnation, left):
                left[fork.source_incarnation] = needs.without(identity.incarnation)
            _tally(found, fork.source, 0, self._size(source, left) - before)

    def _size(self, head: Head, left: dict[int, Needs]) -> int:
        return size_of(head, self._needs(head.identity.incarnation, left))

    def _needs(self, incarnation: int, left: dict[int, Needs]) -> Needs | None:
        return left[incarnation] if incarnation in left else self._forks.of(incarnation)

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
