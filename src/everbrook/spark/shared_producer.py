"""The producer that all batch writes of a stream share: a stream takes a limited number, and forgets none.

Each batch write begins a new epoch and names the position that it continues from, so that none overwrites what another
has stored. The position lists the last batch writes, and how many appends of each the stream has. A batch write that
lost an answer, or was fenced by another one, reads there how far it came, and continues in a later epoch.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from everbrook.protocol.errors import PositionMoved, StaleEpoch
from everbrook.spark.connection import Connection, Post

PRODUCER_ID = "spark-batches"
_LISTED = 32
"""So many entries of 30 characters fit in a position, which holds 1,024."""


class BatchUncertain(Exception):
    """It is unknown whether a stream has all rows of a batch."""

    restartable = False


class Progress(Struct, frozen=True):
    """How many appends of each batch write a stream has. The one that wrote last comes first."""

    entries: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        """Write it as `parse_progress` reads it."""
        return " ".join(f"{name}:{count}" for name, count in self.entries)

    def of(self, name: str) -> int:
        """Give the number of appends of a batch write."""
        return dict(self.entries).get(name, 0)

    def reached(self, name: str, count: int) -> "Progress":
        """Note how far a batch write came, and forget the one that wrote nothing for the longest time."""
        others = [entry for entry in self.entries if entry[0] != name]
        return Progress(((name, count), *others)[:_LISTED])


def parse_progress(position: str | None) -> Progress:
    """Read a stored position."""
    pairs = (entry.partition(":") for entry in (position or "").split())
    return Progress(tuple((name, int(count)) for name, _, count in pairs))


def append_batch(connection: Connection, stream: str, name: str, posts: Sequence[Post]) -> None:
    """Append each part of a batch once, whichever other batches are written to the stream at the same time."""
    done, claimed = 0, None
    while done < len(posts):
        known = connection.producer(stream, PRODUCER_ID).known
        progress = parse_progress(known.position if known else None)
        epoch = known.epoch + 1 if known else 0
        there = progress.of(name)
        # Each batch write in between has taken an epoch: after fewer than are listed, this one would be in the list.
        if there < done or (not there and claimed is not None and epoch - claimed > _LISTED):
            raise BatchUncertain(
                f"{stream!r} was created anew, or got many other batches, while this one was written: {done} of its "
                f"{len(posts)} appends were certainly stored. Compare the stream with the rows before you write again"
            )
        done, claimed = there, epoch
        try:
            new = connection.post_all(stream, list(_claiming(posts, progress, name, epoch, done)))
        except (StaleEpoch, PositionMoved):
            continue  # another batch was written in between
        # What was taken for a duplicate may be that of another batch write, which claims the same epoch.
        done = len(posts) if new else done


def _claiming(posts: Sequence[Post], progress: Progress, name: str, epoch: int, done: int) -> Iterator[Post]:
    """Number the appends that are left, each with the position before it and the one after it."""
    for seq, post in enumerate(posts[done:]):
        before, progress = progress, progress.reached(name, done + seq + 1)
        positions = {"Producer-Resumes-From": str(before), "Producer-Position": str(progress)}
        yield post.of_producer(PRODUCER_ID, epoch, seq, positions)
