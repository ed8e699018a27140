"""What every storage engine promises.

A group of changes is first made durable (`persist`), then visible (`apply`). Between the two nothing can see it; after
a crash in between, all of it is there. What "returned" means after `persist` is the mode's promise: memory survives
nothing, a durable mode survives what its name says.
"""

import errno
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from everbrook.protocol.change import Change, Write
from everbrook.protocol.state import Head, Producer
from everbrook.storage.blobs import Blobs
from everbrook.storage.checkpoints import Checkpoints
from everbrook.storage.index import Messages
from everbrook.storage.pin import Pin


class StorageFull(Exception):
    """There was no room for a group: nothing of it is stored, and the storage is as it was before."""


def refusal(error: OSError) -> Exception:
    """Tell a write that found no room, after which the storage goes on, from one after which nobody knows."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StorageFull(f"the disk is full: {error.strerror}")
    return error


class Record(Struct, frozen=True):
    """A stored stream: its head, and what it remembers of its producers."""

    head: Head
    producers: Mapping[bytes, Producer]


class Storage(Protocol):
    """One place that keeps streams. All calls but `persist` come from the thread that owns the streams."""

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
    def last_incarnation(self) -> int:
        """The largest incarnation of a stream that is here."""

    @property
    def used_bytes(self) -> int:
        """How much memory the stored streams take."""

    def cost_bytes(self, write: Write, /) -> int:
        """How much memory a write would take."""

    def persist(self, group: Sequence[Change]) -> None:
        """Make a group of changes durable, each entirely or not at all.

        `StorageFull` refuses the group. Any other error poisons the store: nobody knows what is durable.
        """

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

    def close(self) -> None:
        """Let go of everything the engine holds open, pins too. Nothing may be called after it."""
