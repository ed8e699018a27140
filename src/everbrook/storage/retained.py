"""What a stream and its forks still need of what is stored: no more than that has to be kept.

A fork needs what its source retained when the fork was made. A source only ever retains less, so that the oldest living
fork needs the most.
"""

from collections.abc import Iterable

from everbrook.protocol.state import Head, Identity


def floor_of(head: Head, oldest_fork: Identity | None) -> int:
    """Give the offset before which nobody needs a stream's bytes."""
    earliest = head.kept.earliest
    return min(earliest, oldest_fork.first_kept.earliest) if oldest_fork else earliest


def needs_blob(head: Head | None, forks: Iterable[Identity], blob: int) -> bool:
    """Tell whether a blob of a stream is its snapshot, or one that a fork of it began with."""
    if head and head.kept.snapshot and head.kept.snapshot.blob == blob:
        return True
    return any(fork.first_kept.snapshot and fork.first_kept.snapshot.blob == blob for fork in forks)
