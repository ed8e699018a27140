"""What a power failure leaves of changes that were not synced: all, nothing, a part, or parts with holes between them.

A disk writes whole sectors, in any order, and a file system the names in a folder. A sector that was not written still
has what it had before, which in a recycled file is what an earlier use left there. In allocated room it has zeros.
"""

from collections.abc import Sequence
from random import Random

from tests.crash.simulation.operations import Allocated, Committed, ContentOperation, Cut, NameOperation, Wrote

# Real sectors have 512 bytes or more; smaller ones tear more in workloads as small as ours.
SECTOR_BYTES = (16, 64, 512, 4096)
SECTOR_LOST = 0.35


def surviving_content(content: bytes, changes: Sequence[ContentOperation], chance: Random) -> bytes:
    """Give a content that a file may have after a power failure. Some of the changes may have been synced."""
    if not changes:
        return content
    if any(isinstance(change, Committed) for change in changes):
        return _committed(content, changes, chance)
    # One that is larger than all that was written can't tear it.
    size = sum(len(change.data) for change in changes if isinstance(change, Wrote))
    sectors = Sectors(
        content, changes, chance.choice([each for each in SECTOR_BYTES if each < size] or SECTOR_BYTES[:1])
    )
    fate = chance.choice(("lost", "kept", "torn", "holed", "scattered", "scattered"))
    if fate == "torn":
        return sectors.first(chance.randrange(len(sectors.versions) + 1))
    if fate == "holed":
        return sectors.without({chance.choice(sectors.numbers)}, chance) if sectors.numbers else sectors.first(0)
    if fate == "scattered":
        return sectors.without({number for number in sectors.numbers if chance.random() < SECTOR_LOST}, chance)
    return sectors.first(0 if fate == "lost" else len(sectors.versions))


def _committed(content: bytes, changes: Sequence[ContentOperation], chance: Random) -> bytes:
    """A database is as it was before or after one of its commits."""
    return chance.choice([content, *(change.image for change in changes if isinstance(change, Committed))])


def written(content: bytes, changes: Sequence[ContentOperation]) -> bytes:
    """Give the content of a file after changes."""
    if len(changes) == 1 and isinstance(changes[0], Committed):
        return changes[0].image
    held = bytearray(content)
    for change in changes:
        change_content(held, change)
    return bytes(held)


def change_content(held: bytearray, change: ContentOperation) -> None:
    """Let a change happen to the content of a file."""
    if isinstance(change, Wrote):
        _lengthen(held, change.position)
        held[change.position : change.end] = change.data
    elif isinstance(change, Allocated):
        _lengthen(held, change.size)
    elif isinstance(change, Cut):
        del held[change.size :]
    else:
        held[:] = change.image


def _lengthen(held: bytearray, size: int) -> None:
    held += bytes(max(0, size - len(held)))


# Stands for a sector where a version is a length that the file got.
LENGTH = -1


class Sectors:
    """The sectors of one file: what is on the disk, and in their order the versions that may or may not be."""

    def __init__(self, content: bytes, changes: Sequence[ContentOperation], size: int) -> None:
        self._size = size
        self._synced = bytearray(content)
        self._held = bytearray(content)
        self._allocated = len(content)
        self.versions: list[tuple[int, bytes | int]] = []
        for change in changes:
            self._take(change)

    @property
    def numbers(self) -> list[int]:
        """The sectors that are not what is on the disk."""
        return sorted({number for number, _ in self.versions if number != LENGTH})

    def _take(self, change: ContentOperation) -> None:
        before = len(self._held)
        change_content(self._held, change)
        if isinstance(change, Wrote) and change.data:
            first, last = change.position // self._size, (change.end - 1) // self._size
            if change.synced:
                self._settle(first, last, change.end)
                return
            if change.forgotten:
                return
            self.versions += ((number, self._sector(number)) for number in range(first, last + 1))
        if isinstance(change, Allocated):
            self._allocated = max(self._allocated, change.size)
        if len(self._held) != before:
            self.versions.append((LENGTH, len(self._held)))

    def _sector(self, number: int) -> bytes:
        return bytes(self._held[number * self._size : (number + 1) * self._size])

    def _settle(self, first: int, last: int, end: int) -> None:
        """Sync some sectors, and nothing else but that the file reaches there."""
        _lengthen(self._synced, end)
        for number in range(first, last + 1):
            begin = number * self._size
            sector = self._sector(number)[: len(self._synced) - begin]
            self._synced[begin : begin + len(sector)] = sector
        self.versions = [
            (number, version)
            for number, version in self.versions
            if not (first <= number <= last or (isinstance(version, int) and version < end))
        ]

    def first(self, count: int) -> bytes:
        """Give the content if the disk has written so many of the versions, in their order."""
        held = bytearray(self._synced)
        for number, version in self.versions[:count]:
            self._put(held, number, version)
        return bytes(held)

    def without(self, lost: set[int], chance: Random) -> bytes:
        """Give the content if the disk has written everything but some sectors, or an older version of those."""
        held = bytearray(self._synced)
        reached = chance.randrange(len(self.versions) + 1)
        for place, (number, version) in enumerate(self.versions):
            if number not in lost or (place < reached and chance.random() < 0.5):
                self._put(held, number, version)
        for number in lost:
            # Where a file just grew there may be anything, unless the room was allocated.
            begin = number * self._size
            if begin >= max(self._allocated, len(self._synced)) and chance.random() < 0.3:
                held[begin : begin + self._size] = chance.randbytes(len(held[begin : begin + self._size]))
        return bytes(held)

    def _put(self, held: bytearray, number: int, version: bytes | int) -> None:
        if isinstance(version, int):
            _lengthen(held, version)
            del held[version:]
        else:
            begin = number * self._size
            _lengthen(held, begin)
            held[begin : begin + len(version)] = version


def surviving_names(changes: Sequence[NameOperation], chance: Random) -> list[NameOperation]:
    """Give the changes of a folder that a power failure may leave, in their order."""
    fate = chance.choice(("lost", "kept", "first", "some"))
    if fate == "lost":
        return []
    if fate == "kept":
        return list(changes)
    if fate == "first":
        return list(changes[: chance.randrange(len(changes) + 1)])
    return [change for change in changes if chance.random() < 0.5]
