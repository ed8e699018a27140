"""Which queries write a table: each leaves its name in the folder before its first batch.

A query that has written batches already, and whose name is not there, writes to another table than before: it would
begin that one in the middle. Two runs of one query take turns, batch by batch: the second finds that the first has
written it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from everbrook.file_lock import take_lock
from everbrook.spark.lake.errors import TableMismatch, told_of

_QUERIES = "_queries"


def introduce(folder: Path, query: str, batch: int, *, known: bool) -> None:
    """Leave the name of a query that begins with a batch, unless it can't begin here.

    It is `known` if the table has a batch of it.
    """
    name = folder / _QUERIES / query
    with told_of(folder):
        if known or name.exists():
            return
        if batch > 0:
            raise TableMismatch(
                f"the table {folder} has never had a batch of this query, whose checkpoint is at batch {batch}: was "
                "the table removed, or is it at another path now? Put it back; or let the query begin anew, with "
                "`everbrook pipeline reset`, or with another checkpoint"
            )
        name.parent.mkdir(parents=True, exist_ok=True)
        name.touch()


@contextmanager
def held(folder: Path, query: str) -> Iterator[None]:
    """Keep other runs of a query from its table for a while. Whoever dies lets go of it."""
    lock = folder / _QUERIES / f".{query}"
    with told_of(folder):
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = take_lock(lock, wait=True)
    try:
        yield
    finally:
        os.close(descriptor)
