# Written by tools/mirror.py from src/everbrook/client/_async/changes.py: change that file, not this one.
"""The changes of a state one by one, as they are applied."""

from collections import deque
from collections.abc import Callable
from typing import Self

from everbrook.client.errors import ChangesMissed
from everbrook.protocol.dialects import StateMessage

# What nobody takes must not fill the memory.
MAX_WAITING = 100_000


class Changes:
    """An iterator over what is applied to a state from the moment it was made. It ends when the state does."""

    def __init__(self, until: Callable[[Callable[[], bool]], None]) -> None:
        """Wait with `until`, which returns when something holds or nothing more will come."""
        self._until = until
        self._waiting: deque[StateMessage] = deque()
        self._missed = False

    def push(self, change: StateMessage) -> None:
        """Take a change that was applied."""
        if len(self._waiting) >= MAX_WAITING:
            self._missed = True
        if not self._missed:
            self._waiting.append(change)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StateMessage:
        if not self._waiting:
            self._until(lambda: bool(self._waiting) or self._missed)
        if self._waiting:
            return self._waiting.popleft()
        if self._missed:
            raise ChangesMissed(
                f"more than {MAX_WAITING} changes were waiting to be taken; those after them were not kept"
            )
        raise StopIteration
