# Written by tools/mirror.py from src/everbrook/client/_async/changes.py: change that file, not this one.
"""The changes of a state one by one, as they are applied."""

from collections import deque
from collections.abc import Callable
from typing import Self

from everbrook.client.errors import ChangesMissed
from everbrook.protocol.state_changes import StateMessage


class Changes:
    """An iterator over what is applied to a state from the moment it was made. It ends when the state does."""

    def __init__(self, until: Callable[[Callable[[], bool]], None], max_waiting: int) -> None:
        """Wait with `until`, which returns when something holds or nothing more will come.

        At most `max_waiting` changes are kept: an iterator that nobody reads must not fill the memory.
        """
        self._until = until
        self._max_waiting = max_waiting
        self._waiting: deque[StateMessage] = deque()
        self._missed = False

    def push(self, change: StateMessage) -> None:
        """Take a change that was applied."""
        if len(self._waiting) >= self._max_waiting:
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
                f"more than {self._max_waiting} changes were waiting to be taken; those after them were not kept"
            )
        raise StopIteration
