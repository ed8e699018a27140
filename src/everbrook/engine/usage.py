"""Usage: the number of streams and bytes in the whole store and in each bucket, in the newest state.

A scope is measured at its first use, from the heads of all its streams, and is updated with each change from then on.
So quotas are exact. A stream has its own bytes from the first one that it or a fork of it retains, its snapshot, and
the snapshots with which forks of it began. So a cut frees no bytes that a fork needs; the end of that fork frees them.

A fork needs the bytes and the snapshot that its source retained when the fork was made. A source retains less and less,
so the oldest fork needs the most bytes (`storage/api.py`).
"""

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct, field

from everbrook.protocol.path import bucket_of, bucket_prefix
from everbrook.protocol.state import Change, Drop, Head, Identity, Kept, Snapshot, Write


class Needs(Struct):
    """The bytes and snapshots of one stream that its forks need. The oldest fork is entered first."""

    source: int
    kept: dict[int, Kept] = {}
    """The `Kept` with which each fork began."""
    snapshots: dict[int, Snapshot] = {}
    users: Counter[int] = field(default_factory=Counter)
    """How many forks began with each snapshot."""
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
        """Remove a fork that was dropped."""
        kept = self.kept.pop(fork, None)
        snapshot = self._published(kept) if kept else None
        if snapshot:
            self.users[snapshot.blob] -= 1
            if not self.users[snapshot.blob]:
                del self.users[snapshot.blob], self.snapshots[snapshot.blob]
                self.blob_bytes -= snapshot.size

    def without(self, fork: int) -> "Needs":
        """Return the needs of the other forks."""
        others = Needs(self.source, self.kept.copy(), self.snapshots.copy(), self.users.copy(), self.blob_bytes)
        others.take_out(fork)
        return others

    def floor(self, earliest: int) -> int:
        """Return the first offset that the stream, which retains bytes from `earliest` on, or a fork of it needs."""
        oldest = next(iter(self.kept.values()), None)
        return min(earliest, oldest.earliest) if oldest else earliest

    def snapshot_bytes(self, present: int) -> int:
        """Return the bytes of the snapshots that only forks need, without the present snapshot of the stream."""
        snapshot = self.snapshots.get(present)
        return self.blob_bytes - (snapshot.size if snapshot else 0)

    def _published(self, kept: Kept) -> Snapshot | None:
        """Return the snapshot with which a fork began, if its source published it; None if a source further up did."""
        snapshot = kept.snapshot
        return snapshot if snapshot and snapshot.owner == self.source else None


class Forks:
    """The needs of the forks of all streams, by the incarnations of the sources."""

    def __init__(self) -> None:
        self._needs: dict[int, Needs] = {}

    def of(self, source: int) -> Needs | None:
        """Return the needs of the forks of a stream; None if it has no forks."""
        return self._needs.get(source)

    def count(self, forks: Iterable[Identity]) -> None:
        """Replace the needs of the sources of these forks. `forks` must have all forks of each source."""
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


class Amount(Struct):
    """A number of streams, and a number of bytes."""

    streams: int = 0
    size: int = 0

    def add(self, streams: int, size: int) -> None:
        """Add to both numbers."""
        self.streams += streams
        self.size += size


def size_of(head: Head, needs: Needs | None = None) -> int:
    """Return the number of bytes of a stream whose forks have these `needs`."""
    identity, snapshot, earliest = head.identity, head.kept.snapshot, head.kept.earliest
    published = snapshot is not None and snapshot.owner == identity.incarnation
    snapshot_bytes = snapshot.size if snapshot is not None and published else 0
    if needs:
        earliest = needs.floor(earliest)
        snapshot_bytes += needs.snapshot_bytes(snapshot.blob if snapshot is not None and published else 0)
    return max(0, head.tail - max(identity.first_own_offset, earliest)) + snapshot_bytes


Differences = dict[bytes, Amount]


def _tally(found: Differences, name: bytes, streams: int, size: int) -> None:
    for scope in {EVERYTHING, bucket_of(name) or EVERYTHING}:
        found.setdefault(scope, Amount()).add(streams, size)


class Usage:
    """The usage by bucket id; `EVERYTHING` is the whole store."""

    def __init__(self, heads: Callable[[bytes], Iterable[Head]], head_of: Callable[[bytes], Head | None]) -> None:
        """`heads` returns the newest heads of all streams below a prefix, `head_of` that of one stream."""
        self._heads = heads
        self._head_of = head_of
        self._held: Differences = {}
        self._forks = Forks()

    def of(self, scope: bytes) -> Amount:
        """Return the usage of a bucket, or of the whole store."""
        held = self._held.get(scope)
        if held is None:
            held = self._held[scope] = self._measure(scope)
        return held

    def _measure(self, scope: bytes) -> Amount:
        held, prefix = Amount(), bucket_prefix(scope) if scope else EVERYTHING
        forks = []
        for head in self._heads(prefix):
            held.add(1, size_of(head))
            if head.identity.fork:
                forks.append(head.identity)
        self._forks.count(forks)
        if forks:
            # A fork is in the bucket of its source, but may follow it in the scan: only now are the needs of forks
            # known.
            for head in self._heads(prefix):
                if needs := self._forks.of(head.identity.incarnation):
                    held.add(0, size_of(head, needs) - size_of(head))
        return held

    def differences(self, change: Change) -> Differences:
        """Return the difference that a change would make to the usage of each scope.

        It is right only for scopes that were measured before.
        """
        found: Differences = {}
        # The needs after the edits so far, of streams of which a fork ended: a change may end a stream after its last
        # fork, and its bytes must not be counted twice.
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
        """Count the bytes that the end of a fork frees at its source."""
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
        """Apply the differences of a change to the scopes that were measured."""
        self._forks.follow(change)
        for scope, difference in differences.items():
            held = self._held.get(scope)
            if held is not None:
                held.add(difference.streams, difference.size)

    def forget(self, scope: bytes | None = None) -> None:
        """Forget the usage of a scope, or of all scopes (None), so that the next use measures it again.

        This is needed after a bucket was deleted, or after changes were rolled back.
        """
        if scope is None:
            self._held.clear()
            self._forks.forget()
        else:
            self._held.pop(scope, None)
