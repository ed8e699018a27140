"""What has to end before the connections of a client do: recordings say in their streams that they were stopped."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from everbrook.client._async.concurrency import spawn
from everbrook.client._async.transport import AsyncTransport

Ending: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

_under_way: WeakKeyDictionary[AsyncTransport, set[Ending]] = WeakKeyDictionary()


@contextmanager
def before_closing(transport: AsyncTransport, end: Ending) -> Iterator[None]:
    """Have `end` called if the connections are closed within the block."""
    endings = _under_way.setdefault(transport, set())
    endings.add(end)
    try:
        yield
    finally:
        endings.discard(end)


async def end_all(transport: AsyncTransport) -> None:
    """End what is under way, all of it at a time."""
    ending = [spawn(end, name="everbrook: the end of a recording") for end in list(_under_way.get(transport, ()))]
    for task in ending:
        await task.join()
