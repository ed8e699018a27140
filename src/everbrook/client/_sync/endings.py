# Written by tools/mirror.py from src/everbrook/client/_async/endings.py: change that file, not this one.
"""What has to end before the connections of a client do: recordings say in their streams that they were stopped."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias
from weakref import WeakKeyDictionary

from everbrook.client._sync.concurrency import spawn
from everbrook.client._sync.transport import Transport

Ending: TypeAlias = Callable[[], None]

_under_way: WeakKeyDictionary[Transport, set[Ending]] = WeakKeyDictionary()


@contextmanager
def before_closing(transport: Transport, end: Ending) -> Iterator[None]:
    """Have `end` called if the connections are closed within the block."""
    endings = _under_way.setdefault(transport, set())
    endings.add(end)
    try:
        yield
    finally:
        endings.discard(end)


def end_all(transport: Transport) -> None:
    """End what is under way, all of it at a time."""
    ending = [spawn(end, name="everbrook: the end of a recording") for end in list(_under_way.get(transport, ()))]
    for task in ending:
        task.join()
