"""What every storage engine promises.

A group of changes is first made durable (`persist`), then visible (`apply`). Between the two nothing can see it; after
a crash in between, all of it is there. What "returned" means after `persist` is the mode's promise: memory survives
nothing, a durable mode survives what its name says.
"""

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from everbrook.protocol.change import Change, Write
from everbrook.protocol.state import Head, Identity, Producer
from everbrook.storage.damage import Damage, DamageMark
from everbrook.storage.index import Messages
from everbrook.storage.pin import Pin


class Checkpoints:
    """Counts the checkpoints of a store. Written by its threads, read by whoever watches: plain numbers."""

    __slots__ = ("done", "failed", "journal_bytes", "last_secs", "secs")

    def __init__(self) -> None:
        self.journal_bytes = 0
        self.done = 0
        self.failed = 0
        self.secs = 0.0
        self.last_secs = 0.0

    def note(self, secs: float, *, failed: bool = False) -> None:
        """Count a checkpoint that took so long."""
        self.done += not failed
        self.failed += failed
        self.secs += secs
        self.last_secs = secs


class Draft(Protocol):
    """A blob that is being written. It may be used from another thread, one call at a time."""

    def write(self, data: bytes) -> None:
        """Add bytes. `StorageFull` says that there is no room for them."""

    def finish(self) -> None:
        """Return when the blob is as durable as the storage's promise says. `StorageFull` as above."""

    def abandon(self) -> None:
        """Remove what there is of it."""


class BlobReader(Protocol):
    """A blob that is being read. What it has begun to read stays readable, even if the blob is removed."""

    def read(self, size: int) -> bytes:
        """Give the next bytes, at most `size`; none at the end."""

    def close(self) -> None:
        """Let go of it."""


class Blobs(Protocol):
    """The bytes of snapshots, each written once, beside the streams. Calls may come from several threads, and may wait.

    A blob is whole and durable before a change refers to it. One that nothing refers to is an orphan, left by a crash
    or superseded, and is removed. It is known by the incarnation of the stream that published it, its owner, and a
    number.
    """

    def begin(self, owner: int, number: int) -> Draft:
        """Begin a blob that does not exist. `StorageFull` says that there is no room for it."""

    def open(self, owner: int, number: int, size: int, /) -> BlobReader:
        """Begin to read a blob of so many bytes. `StorageFull` says that no file can be opened.

        `Damaged` says that it is not there, and when it is read, that it is not what was written.
        """

    def remove(self, owner: int, number: int) -> None:
        """Remove a blob, if it is there."""

    def all(self) -> Iterator[list[tuple[int, int]]]:
        """Go through all blobs, some at a time: owners and numbers. Those being written may be among them."""


class StorageFull(Exception):
    """There was no room, or no file descriptor, for a group: nothing of it is stored, and the storage is as before."""


def refusal(error: OSError) -> Exception:
    """Tell a write that found no room, after which the storage goes on, from one after which nobody knows."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StorageFull(f"the disk is full: {error.strerror}")
    return error


def refusal_to_open(error: OSError) -> Exception:
    """Do what `refusal` does, for an error of opening or creating a file or of making a folder.

    Without a descriptor or memory for it the file was not touched, so that the storage goes on as well. That holds for
    nothing but opening: a sync that finds no memory leaves unknown what is durable.
    """
    if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOMEM}:
        return StorageFull(f"no file can be opened: {error.strerror}")
    return refusal(error)


class Record(Struct, frozen=True):
    """A stored stream: its head, what it remembers of its producers, and whether it is known to be damaged."""

    head: Head
    producers: Mapping[bytes, Producer]
    damage: DamageMark | None = None


class Storage(Protocol):
    """One place that keeps streams. All calls but `persist` and `seal` come from the thread that owns the streams."""

    promise: str
    """What an acknowledged change survives, in words for a person."""

    blocking: bool
    """Whether `persist` waits for a disk or a network, and so belongs in a thread of its own. If not, there is
    nothing to persist, and `apply` is all."""

    @property
    def blobs(self) -> Blobs:
        """Where the bytes of snapshots are."""

    @property
    def checkpoints(self) -> Checkpoints | None:
        """What became of its journal, where it has one."""

    @property
    def damages(self) -> Sequence[Damage]:
        """What was found damaged when it was opened."""

    @property
    def damaged_streams(self) -> int:
        """How many streams are known to be damaged."""

    def damage_of(self, incarnation: int) -> DamageMark | None:
        """Give what is known of the damage of a stream, if it has any."""

    def mark(self, incarnation: int, mark: DamageMark, /) -> None:
        """Remember that a stream is damaged. The mark stays until somebody has repaired the stream."""

    @property
    def refusal(self) -> str | None:
        """Why it takes no changes until somebody has repaired it, if so."""

    @property
    def last_incarnation(self) -> int:
        """At least the largest incarnation that was ever stored, and the largest number of a blob in a head.

        It counts streams and snapshots that are gone, and is as durable as they were: what comes after a restart, even
        with a clock that was set back, must not get a number that somebody may still hold in an offset, an entity tag
        or a fork.
        """

    @property
    def epoch(self) -> int:
        """Another number after each restore from a backup: the same offset may mean other bytes then."""

    @property
    def used_bytes(self) -> int:
        """How much memory the stored streams take."""

    def bucket_bytes(self, bucket_id: bytes, /) -> int:
        """How much of that is of a bucket."""

    def cost_bytes(self, write: Write, /) -> int:
        """How much memory a write would take."""

    def persist(self, group: Sequence[Change]) -> None:
        """Make a group of changes durable, each entirely or not at all.

        `StorageFull` refuses the group. Any other error poisons the store: nobody knows what is durable.
        """

    @property
    def unsealed(self) -> bool:
        """Whether nothing proves yet that the last group was durable: the next one would, or `seal`."""

    def seal(self) -> None:
        """Prove that the last group was durable, when no other one is being persisted."""

    def apply(self, group: Sequence[Change]) -> None:
        """Make a persisted group visible to the methods below. It cannot fail."""

    def load(self, name: bytes) -> Record | None:
        """Give the stream that has this name now."""

    def scan(self, prefix: bytes, after: bytes, limit: int) -> list[tuple[bytes, Head | None]]:
        """Give the streams whose names begin with `prefix` and follow `after`, in order. A damaged one has no head."""

    def count(self, prefix: bytes) -> int:
        """Count the streams whose names begin with `prefix`."""

    def mortal(self, after: int, limit: int, /) -> list[Head]:
        """Give streams that time acts on and that need not be in memory, in the order of their incarnations."""

    def fork_count(self, incarnation: int) -> int:
        """Count the streams that branch off this one."""

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        """Give the stream's own bytes from `start` to `end`."""

    def boundary_at_or_before(self, incarnation: int, offset: int) -> int:
        """Give the last message boundary not greater than `offset`; the first own offset is one."""

    def boundary_after(self, incarnation: int, offset: int) -> int:
        """Give the first message boundary greater than `offset`, which lies before the tail."""

    def append_end(self, incarnation: int, offset: int) -> int:
        """Give the end of the append that holds the byte at `offset`."""

    def time_at(self, incarnation: int, offset: int) -> int:
        """Give the time of the append that holds the byte at `offset`."""

    def messages(self, incarnation: int, start: int, end: int) -> Messages:
        """Give the stream's own messages that end after `start` and not after `end`."""

    def seek(self, incarnation: int, offset: int, count: int) -> tuple[int, int]:
        """Go `count` of the stream's own messages on from an offset, backwards if negative, as far as they reach.

        Gives where that leads, and how many messages are left to go.
        """

    def discard(self, incarnation: int) -> None:
        """Give the space back of what neither the stream nor a fork of it retains. Some of it may stay for a while."""

    def keeps(self, owner: int, blob: int) -> bool:
        """Tell whether a blob is the snapshot of its owner, or one that a fork of it began with."""

    def pin(self) -> Pin | None:
        """Hold on to everything that is durable now, to be read while the storage goes on. None: nothing is on a disk.

        It is called while nothing is being persisted, and returns at once. Until the pin is released or the storage
        closed, nothing of that moment is lost; what is removed meanwhile takes up room until then.
        """

    def verify(self) -> str | None:
        """Say why nothing may be persisted any more, if so.

        Another process may write to the folder of the store by now, or its base was found damaged. `close` is not
        called then, because it writes as well.
        """

    def close(self) -> None:
        """Let go of everything the engine holds open, pins too. Nothing may be called after it."""


def floor_of(head: Head, oldest_fork: Identity | None) -> int:
    """Give the offset before which nobody needs a stream's bytes.

    A fork needs what its source retained when the fork was made. A source only ever retains less, so that the oldest
    living fork needs the most.
    """
    earliest = head.kept.earliest
    return min(earliest, oldest_fork.first_kept.earliest) if oldest_fork else earliest


def needs_blob(head: Head | None, forks: Iterable[Identity], blob: int) -> bool:
    """Tell whether a blob of a stream is its snapshot, or one that a fork of it began with."""
    if head and head.kept.snapshot and head.kept.snapshot.blob == blob:
        return True
    return any(fork.first_kept.snapshot and fork.first_kept.snapshot.blob == blob for fork in forks)
