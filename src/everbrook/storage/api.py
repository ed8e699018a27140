"""The interface of every storage.

A group of changes is first made durable (`persist`), then visible (`apply`). Between the two no reader sees it, and a
crash in between loses none of it. After `persist` has returned, a change survives what the `promise` of the storage
mode says. In memory mode it survives nothing.
"""

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from everbrook.protocol.state import Change, Head, Identity, Producer, Write
from everbrook.storage.damage import Damage, DamageMark
from everbrook.storage.message_index import MessageIndex, Messages


class Checkpoints:
    """Counts the checkpoints of a store. Threads of the store write plain numbers; metrics read them without a lock."""

    __slots__ = ("done", "failed", "journal_bytes", "last_secs", "secs")

    def __init__(self) -> None:
        self.journal_bytes = 0
        self.done = 0
        self.failed = 0
        self.secs = 0.0
        self.last_secs = 0.0

    def note(self, secs: float, *, failed: bool = False) -> None:
        """Count a checkpoint that took `secs`."""
        self.done += not failed
        self.failed += failed
        self.secs += secs
        self.last_secs = secs


class Draft(Protocol):
    """A blob that is being written. Any thread may call it, one call at a time."""

    def write(self, data: bytes) -> None:
        """Add bytes. Raises `StorageFull` if there is no room for them."""

    def finish(self) -> None:
        """Return when the blob is as durable as the storage promises. Raises `StorageFull` as `write` does."""

    def abandon(self) -> None:
        """Remove the bytes that were written."""


class BlobReader(Protocol):
    """A blob that is being read. It remains readable to its end, even if the blob is removed meanwhile."""

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""

    def close(self) -> None:
        """Release the file, if there is one."""


class Blobs(Protocol):
    """The bytes of snapshots, each written once, beside the streams. Any thread may call; calls may wait for a disk.

    A blob is complete and durable before a change refers to it. A blob without a reference is an orphan: a crash has
    left it, or its snapshot was replaced. Orphans are removed. The key of a blob is its owner, which is the incarnation
    of the stream that published it, and a number.
    """

    def begin(self, owner: int, number: int) -> Draft:
        """Begin a blob that does not exist. Raises `StorageFull` if there is no room for it."""

    def open(self, owner: int, number: int, size: int, /) -> BlobReader:
        """Begin to read a blob of `size` bytes.

        Raises `StorageFull` if no file can be opened, and `Damaged` if the blob is missing. The reader raises `Damaged`
        if the bytes are not those that were written.
        """

    def remove(self, owner: int, number: int) -> None:
        """Remove a blob, if it exists."""

    def all(self) -> Iterator[list[tuple[int, int]]]:
        """Return the owners and numbers of all blobs, in batches. Blobs that are being written may be among them."""


class StorageFull(Exception):
    """There is no room or no file descriptor for a group. No part of it is stored, and the storage works on."""


def refusal(error: OSError) -> Exception:
    """Map ENOSPC and EDQUOT to `StorageFull`; after any other error of a write the state of the file is unknown."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StorageFull(f"the disk is full: {error.strerror}")
    return error


def refusal_to_open(error: OSError) -> Exception:
    """Map EMFILE, ENFILE and ENOMEM to `StorageFull` as well, for an error of opening a file or of making a folder.

    Without a descriptor or memory the file was not touched, so the storage works on. This holds for opening only: after
    a sync that failed with ENOMEM it is unknown which bytes are durable.
    """
    if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOMEM}:
        return StorageFull(f"no file can be opened: {error.strerror}")
    return refusal(error)


class Record(Struct, frozen=True):
    """A stored stream: its head, the state of its producers, and its damage mark, if it has one."""

    head: Head
    producers: Mapping[bytes, Producer]
    damage: DamageMark | None = None


class PinnedFile(Struct, frozen=True):
    """A file of a pinned store: its path below the store's folder, and its length."""

    name: str
    size: int
    stamp: str = ""
    """While the stamp and the size of a file stay the same, so do its bytes. Empty: the file must be compared."""


class Pin(Protocol):
    """A store at one moment. All calls but `release` may wait for a disk. Any thread may call."""

    store: str
    """The name of the store's folder in a data folder: `acid` or `file`."""

    released: bool
    """Whether the pin was released. Bytes that were read belong to the pin if this is still false afterwards."""

    def folders(self) -> list[str]:
        """Return the folders that have files, as paths below the store's own folder, which is the empty path."""

    def files(self, folder: str) -> list[PinnedFile]:
        """Return the files of a folder, sorted."""

    def read(self, name: str, start: int, size: int) -> bytes:
        """Read a part of a file; fewer bytes if the file was truncated. Raises `FileNotFoundError` if it is missing."""

    def release(self) -> None:
        """End the pin, which must not be used any more. A second call does nothing."""


class Storage(Protocol):
    """Stores streams. All calls but `persist` and `seal` come from the thread that owns the streams."""

    promise: str
    """The failures that an acknowledged change survives, as a text for the log and the user interface."""

    blocking: bool
    """Whether `persist` waits for a disk or a network, and so needs a thread of its own. If not, `persist` does nothing
    and `apply` is enough."""

    @property
    def blobs(self) -> Blobs:
        """The bytes of snapshots."""

    @property
    def checkpoints(self) -> Checkpoints | None:
        """The counts of checkpoints; None if the storage has no journal."""

    @property
    def damages(self) -> Sequence[Damage]:
        """The damage that opening the storage found."""

    @property
    def damaged_streams(self) -> int:
        """How many streams are known to be damaged."""

    def damage_of(self, incarnation: int) -> DamageMark | None:
        """Return the damage mark of a stream, if it has one."""

    def mark(self, incarnation: int, mark: DamageMark, /) -> None:
        """Mark a stream as damaged. The mark stays until the stream is repaired or deleted."""

    @property
    def refusal(self) -> str | None:
        """Why the storage takes no changes until it is repaired; None if it takes changes."""

    @property
    def last_incarnation(self) -> int:
        """At least the largest incarnation that was ever stored, and the largest number of a blob in a head.

        It includes deleted streams and snapshots, and is as durable as they were. A number must never be used twice,
        even if the clock was set back before a restart: a client may still have it in an entity tag or a stored
        position.
        """

    @property
    def epoch(self) -> int:
        """A number that changes with each restore from a backup: the same offset may mean other bytes afterwards."""

    @property
    def used_bytes(self) -> int:
        """How much memory the stored streams take."""

    def bucket_bytes(self, bucket_id: bytes, /) -> int:
        """How much memory the stored streams of a bucket take."""

    def cost_bytes(self, write: Write, /) -> int:
        """How much memory a write would take."""

    def prepare(self, group: Sequence[Change]) -> None:
        """Do the part of `persist` that needs no waiting, for the group that is persisted next. It may be left out."""

    def persist(self, group: Sequence[Change]) -> None:
        """Make a group of changes durable, each change atomically.

        Raises `StorageFull` if it refuses the group. Any other error poisons the store: it is unknown what is durable.
        """

    @property
    def unsealed(self) -> bool:
        """Whether the last group still lacks a proof that it was durable: the next group, or `seal`, adds one."""

    def seal(self) -> None:
        """Prove that the last group was durable. Must not run beside `persist`."""

    def apply(self, group: Sequence[Change]) -> None:
        """Make a persisted group visible to the methods below. It cannot fail."""

    def load(self, name: bytes) -> Record | None:
        """Return the stream that has this name now."""

    def scan(self, prefix: bytes, after: bytes, limit: int) -> list[tuple[bytes, Head | None]]:
        """Return the streams whose names begin with `prefix` and follow `after`, in order. No head: it is damaged."""

    def count(self, prefix: bytes) -> int:
        """Count the streams whose names begin with `prefix`."""

    def mortal(self, after: int, limit: int, /) -> list[Head]:
        """Return stored streams with a lifetime or a retention policy, in the order of their incarnations.

        A storage whose streams are always in memory returns none.
        """

    def fork_count(self, incarnation: int) -> int:
        """Count the forks of this stream."""

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        """Return the stream's own bytes from `start` to `end`."""

    def boundary_at_or_before(self, incarnation: int, offset: int) -> int:
        """Return the last message boundary not greater than `offset`; the first own offset is one."""

    def index_at(self, incarnation: int, offset: int, /) -> MessageIndex:
        """Return an index of the stream's own messages that has the byte at `offset`, which lies before the tail."""

    def messages(self, incarnation: int, start: int, end: int) -> Messages:
        """Return the stream's own messages that end after `start` and not after `end`."""

    def seek(self, incarnation: int, offset: int, count: int) -> tuple[int, int]:
        """Move `count` of the stream's own messages on from an offset, backwards if negative, as far as they reach.

        Returns the offset reached, and how many messages are left to go.
        """

    def discard(self, incarnation: int) -> None:
        """Free the space of bytes that neither the stream nor a fork of it retains, now or with a later checkpoint."""

    def keeps(self, owner: int, blob: int) -> bool:
        """Return whether a blob is the snapshot of its owner, or one that a fork of it began with."""

    def pin(self) -> Pin | None:
        """Return a consistent view of the files, which remains readable while the storage works on. None: no files.

        Call it while nothing is being persisted; it returns at once. Files that are removed meanwhile take up room
        until the pin is released or the storage is closed.
        """

    def verify(self) -> str | None:
        """Return the reason why nothing may be persisted any more, or None.

        Another process may write to the folder of the store by now, or its base was found damaged. Then the caller must
        not call `close` either, because it writes.
        """

    def close(self) -> None:
        """Release all files, locks and pins. No method may be called afterwards."""


def floor_of(head: Head, oldest_fork: Identity | None) -> int:
    """Return the offset before which neither a stream nor a fork of it needs the stream's bytes.

    A fork needs the bytes that its source retained when the fork was made. A source retains less and less, so the
    oldest living fork needs the most.
    """
    earliest = head.kept.earliest
    return min(earliest, oldest_fork.first_kept.earliest) if oldest_fork else earliest


def needs_blob(head: Head | None, forks: Iterable[Identity], blob: int) -> bool:
    """Return whether a blob of a stream is its snapshot, or one that a fork of it began with."""
    if head and head.kept.snapshot and head.kept.snapshot.blob == blob:
        return True
    return any(fork.first_kept.snapshot and fork.first_kept.snapshot.blob == blob for fork in forks)
