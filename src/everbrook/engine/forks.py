"""Forks: what they still need of their sources, in the newest state, though a source itself has let go of it.

A fork needs what its source retained when it was made: the bytes from there on, and the snapshot of that time. A source
only ever retains less, so that of its forks the oldest needs the most bytes (`storage/api.py`).
"""

from collections import Counter
from collections.abc import Iterable

from everbrook.protocol.change import Change, Drop, Write
from everbrook.protocol.state import Identity, Kept, Snapshot


class Needs:
    """What the forks of one stream need of it. They are entered in the order of their ages, the oldest first."""

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
        """Take a new fork in."""
        self._kept[fork.incarnation] = fork.first_kept
        snapshot = self._published(fork.first_kept)
        if snapshot:
            self._users[snapshot.blob] += 1
            if self._users[snapshot.blob] == 1:
                self._snapshots[snapshot.blob] = snapshot
                self._blob_bytes += snapshot.size

    def take_out(self, fork: int) -> None:
        """Forget a fork that is gone."""
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
        """Take in all forks of some streams, in the place of what was known of them."""
        counted: dict[int, Needs] = {}
        for identity in sorted(forks, key=lambda fork: fork.incarnation):
            if identity.fork:
                source = identity.fork.source_incarnation
                counted.setdefault(source, Needs(source)).enter(identity)
        self._needs |= counted

    def follow(self, change: Change) -> None:
        """Take over what a change makes of forks."""
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
        """Know of none."""
        self._needs.clear()
