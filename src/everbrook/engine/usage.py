"""Usage: what the whole store and each bucket hold, in the newest state, so that a quota is exact.

It is measured when it is first asked for, by looking at every stream it is about, and followed from then on. What a
stream holds are its own bytes from the first that it or a fork of it retains, its snapshot, and those that forks of it
began with: a stream that lets go of what its forks need makes no room by that, they do by ending.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct

from everbrook.engine.forks import Forks, Needs
from everbrook.protocol.change import Change, Drop
from everbrook.protocol.path import bucket_of, bucket_prefix
from everbrook.protocol.state import Head, Identity

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
    """Give how many bytes a stream holds whose forks have `needs`, or all of them but one."""
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
        """Take what gives the newest heads of all streams below a prefix, and that of one of them."""
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
            # A fork is in its source's bucket, but may come after it: what is needed of a source is known only now.
            for head in self._heads(prefix):
                if needs := self._forks.of(head.identity.incarnation):
                    held.add(0, size_of(head, needs) - size_of(head))
        return held

    def differences(self, change: Change) -> Differences:
        """Give by how much a change would make more or less of what is held, where it is of.

        It holds for what was measured before.
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
        """Count what nobody needs of a source any more when a fork of it ends."""
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
        """Take over what has changed."""
        self._forks.follow(change)
        for scope, difference in differences.items():
            held = self._held.get(scope)
            if held is not None:
                held.add(difference.streams, difference.size)

    def forget(self, scope: bytes | None = None) -> None:
        """Measure again when asked: a bucket is gone, or changes came to nothing."""
        if scope is None:
            self._held.clear()
            self._forks.forget()
        else:
            self._held.pop(scope, None)
