"""What is needed of streams, by the rule of the storage itself, and what can be read of them.

What the engine counts must be what is needed, and never less than what can be read.
"""

from collections.abc import Iterator, Sequence

from everbrook.engine import Engine
from everbrook.engine.usage import EVERYTHING, Amount
from everbrook.protocol import Head, Identity, bucket_prefix
from everbrook.storage import floor_of
from tests.unit.engine.rig import held, newest_heads


def check_usage(engine: Engine, scope: bytes) -> None:
    """Check what an engine counts for a bucket, or for the whole store, against what its streams and forks need."""
    heads = newest_heads(engine, b"" if scope == EVERYTHING else bucket_prefix(scope))
    counted = held(engine, scope)
    assert counted == Amount(len(heads), needed_bytes(heads))
    assert counted.size >= readable_bytes(heads)


def needed_bytes(heads: Sequence[Head]) -> int:
    """Count what some streams and their forks, which are among them, need of what is stored."""
    return sum(_needed_of(head, _forks_of(head, heads)) for head in heads)


def _forks_of(source: Head, heads: Sequence[Head]) -> list[Identity]:
    incarnation = source.identity.incarnation
    found = [head.identity for head in heads]
    return [identity for identity in found if identity.fork and identity.fork.source_incarnation == incarnation]


def _needed_of(head: Head, forks: list[Identity]) -> int:
    oldest = min(forks, key=lambda fork: fork.incarnation, default=None)
    first = max(head.identity.first_own_offset, floor_of(head, oldest))
    begun_with = [head.kept.snapshot, *(fork.first_kept.snapshot for fork in forks)]
    snapshots = [snapshot for snapshot in begun_with if snapshot and snapshot.owner == head.identity.incarnation]
    sizes = {snapshot.blob: snapshot.size for snapshot in snapshots}
    return max(0, head.tail - first) + sum(sizes.values())


def readable_bytes(heads: Sequence[Head]) -> int:
    """Count the bytes that somebody can read, each once, whichever streams they are in."""
    by_incarnation = {head.identity.incarnation: head for head in heads}
    living = [head for head in heads if not head.deleted]
    found = sorted({part for head in living for part in _readable_of(head, by_incarnation)})
    snapshots = {(kept.owner, kept.blob): kept.size for head in living if (kept := head.kept.snapshot)}
    return _union_bytes(found) + sum(snapshots.values())


def _union_bytes(parts: list[tuple[int, int, int]]) -> int:
    """Count the bytes of parts of streams, which are sorted, each byte once."""
    count = last = reached = 0
    for incarnation, first, end in parts:
        reached = max(reached, first) if incarnation == last else first
        count += max(0, end - reached)
        last, reached = incarnation, max(reached, end)
    return count


def _readable_of(head: Head, by_incarnation: dict[int, Head]) -> Iterator[tuple[int, int, int]]:
    """Give the parts that can be read of a stream, its own and its sources': whose they are, from where to where."""
    holder, end = head, head.tail
    while True:
        identity = holder.identity
        first = max(identity.first_own_offset, head.kept.earliest)
        if first < end:
            yield identity.incarnation, first, end
        if identity.fork is None:
            return
        holder, end = by_incarnation[identity.fork.source_incarnation], min(end, identity.fork.offset)
