"""Blobs: the bytes of snapshots, each written once, beside the streams.

A blob is whole and durable before a change refers to it. One that nothing refers to is an orphan, left by a crash or
superseded, and is removed. It is known by the incarnation of the stream that published it, its owner, and a number.
"""

from collections.abc import Iterator
from typing import Protocol


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
    """The blobs of a storage. Their calls may wait for a disk, and may come from several threads."""

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
