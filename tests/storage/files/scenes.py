"""Scenes: sequences of groups over several streams, with everything that has to happen entirely or not at all."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from everbrook.protocol import Change, Producer
from tests.storage.drafts import Draft
from tests.storage.files.opening import Contents, commit, contents, open_files

NAMES = [b"s", b"f", b"g", b"t"]
SEGMENT_BYTES = 250


def changes() -> Iterator[Change]:
    """Give changes one by one: forks, soft deletion, cascades, names that pass on, joint writes."""
    source, other = Draft(b"s", 1), Draft(b"t", 9)
    yield (source.write(b"one", producer=(b"p", Producer(0, 0, 1))),)
    fork = Draft(b"f", 2, source=source, offset=3)
    yield (fork.write(b"two"),)
    yield source.write(b"three"), fork.write(b"four" * 60)
    yield (other.write(b"x" * 300),)
    again = Draft(b"f", 3, source=source, offset=3)
    yield fork.drop(), again.write(b"five", producer=(b"q", Producer(1, 1, 2)))
    yield source.write(b"six"), again.write(b"seven"), other.write(closed=True)
    yield (source.write(deleted=True),)
    last = Draft(b"g", 4, source=again, offset=7)
    yield (last.write(b"eight"),)
    yield (again.write(deleted=True),)
    yield last.drop(), again.drop(), source.drop()
    yield other.drop(), Draft(b"t", 10, json=True).write(b"1,", b"2,"), Draft(b"s", 11).write()


def states(folder: Path) -> list[Contents]:
    """Give what a store holds before and after each of the changes."""
    storage = open_files(folder, segment_bytes=SEGMENT_BYTES)
    seen = [contents(storage, NAMES)]
    for change in changes():
        commit(storage, change)
        seen.append(contents(storage, NAMES))
    storage.close()
    assert all(before != after for before, after in pairwise(seen))
    return seen
