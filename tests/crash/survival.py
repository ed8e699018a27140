"""What a power failure leaves of changes that were not synced: all, nothing, a part, or parts with holes between them.

A disk may write the blocks of a file in any order, and a file system the names in a folder. What was never written
reads as zeros, or as what lay there before.
"""

from collections.abc import Sequence
from random import Random

from tests.crash.operations import Committed, ContentOperation, Cut, NameOperation, Wrote

# Real blocks have 512 bytes or more; smaller ones tear more in workloads as small as ours.
BLOCK_BYTES = (16, 64, 512, 4096)
BLOCK_LOST = 0.35


def surviving_content(content: bytes, changes: Sequence[ContentOperation], chance: Random) -> bytes:
    """Give a content that a file may have after a power failure."""
    if any(isinstance(change, Committed) for change in changes):
        return _committed(content, changes, chance)
    fate = chance.choice(("lost", "kept", "torn", "holed", "scattered"))
    if fate in {"lost", "kept"} or not changes:
        return content if fate == "lost" else written(content, changes)
    if fate == "torn" or any(isinstance(change, Cut) for change in changes):
        return _torn(content, changes, chance)
    blocks = _blocks(len(content), written(content, changes), chance.choice(BLOCK_BYTES))
    if fate == "holed":
        lost = {chance.randrange(len(blocks))} if blocks else set()
        return content + _without(blocks, lost, chance)
    lost = {number for number in range(len(blocks)) if chance.random() < BLOCK_LOST}
    scattered = content + _without(blocks, lost, chance)
    return scattered if chance.random() < 0.7 else scattered[: chance.randint(len(content), len(scattered))]


def _committed(content: bytes, changes: Sequence[ContentOperation], chance: Random) -> bytes:
    """A database is as it was before or after one of its commits."""
    return chance.choice([content, *(change.image for change in changes if isinstance(change, Committed))])


def written(content: bytes, changes: Sequence[ContentOperation]) -> bytes:
    """Give the content of a file after changes."""
    for change in changes:
        if isinstance(change, Wrote):
            content += change.data
        elif isinstance(change, Cut):
            content = content[: change.size]
        else:
            content = change.image
    return content


def _torn(content: bytes, changes: Sequence[ContentOperation], chance: Random) -> bytes:
    whole = chance.randrange(len(changes))
    content, torn = written(content, changes[:whole]), changes[whole]
    if isinstance(torn, Wrote):
        return content + torn.data[: chance.randrange(len(torn.data) + 1)]
    return content


def _blocks(start: int, content: bytes, size: int) -> list[bytes]:
    """Cut what follows `start` where the blocks of a disk end."""
    blocks: list[bytes] = []
    while start < len(content):
        blocks.append(content[start : (start // size + 1) * size])
        start += len(blocks[-1])
    return blocks


def _without(blocks: list[bytes], lost: set[int], chance: Random) -> bytes:
    """Put blocks together, those that are lost as zeros or as what lay there before."""
    for number in lost:
        size = len(blocks[number])
        blocks[number] = bytes(size) if chance.random() < 0.7 else chance.randbytes(size)
    return b"".join(blocks)


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
