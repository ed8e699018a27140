"""Usage: what the whole store and each bucket hold, in the newest state, so that a quota is exact.

It is measured when it is first asked for, by looking at every stream it is about, and followed from then on. What a
stream holds are its own bytes from the first that it retains, and its snapshot. What only its forks still read of it is
counted for nobody.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct

from everbrook.protocol.change import Change, Drop
from everbrook.protocol.path import bucket_of, bucket_prefix
from everbrook.protocol.state import Head

EVERYTHING = b""


class Held(Struct):
    """How many streams, and how many bytes."""

    streams: int = 0
    size: int = 0

    def add(self, streams: int, size: int) -> None:
        """Count more, or less."""
        self.streams += streams
        self.size += size


def size_of(head: Head) -> int:
    """Give how many bytes a stream holds."""
    identity, snapshot = head.identity, head.kept.snapshot
    own_bytes = max(0, head.tail - max(identity.first_own_offset, head.kept.earliest))
    published = snapshot is not None and snapshot.owner == identity.incarnation
    return own_bytes + (snapshot.size if snapshot is not None and published else 0)


Differences = dict[bytes, Held]


class Usage:
    """What is held, by bucket id; `EVERYTHING` is the whole store."""

    def __init__(self, heads: Callable[[bytes], Iterable[Head]], head_of: Callable[[bytes], Head | None]) -> None:
        """Take what gives the newest heads of all streams below a prefix, and that of one of them."""
        self._heads = heads
        self._head_of = head_of
        self._held: Differences = {}

    def of(self, scope: bytes) -> Held:
        """Give what is held in a bucket, or in the whole store."""
        held = self._held.get(scope)
        if held is None:
            held = self._held[scope] = self._measure(scope)
        return held

    def _measure(self, scope: bytes) -> Held:
        held = Held()
        for head in self._heads(bucket_prefix(scope) if scope else EVERYTHING):
            held.add(1, size_of(head))
        return held

    def differences(self, change: Change) -> Differences:
        """Give by how much a change would make more or less of what is held, where it is of."""
        found: Differences = {}
        for edit in change:
            name = edit.head.identity.name
            before = None if not isinstance(edit, Drop) and edit.created else self._head_of(name)
            size = (0 if isinstance(edit, Drop) else size_of(edit.head)) - (size_of(before) if before else 0)
            streams = -1 if isinstance(edit, Drop) else int(edit.created)
            for scope in {EVERYTHING, bucket_of(name) or EVERYTHING}:
                found.setdefault(scope, Held()).add(streams, size)
        return found

    def follow(self, differences: Differences) -> None:
        """Take over what has changed."""
        for scope, difference in differences.items():
            held = self._held.get(scope)
            if held is not None:
                held.add(difference.streams, difference.size)

    def forget(self, scope: bytes | None = None) -> None:
        """Measure again when asked: a bucket is gone, or changes came to nothing."""
        if scope is None:
            self._held.clear()
        else:
            self._held.pop(scope, None)
