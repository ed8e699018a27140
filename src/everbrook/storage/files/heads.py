"""Heads that were asked for, or came with a creation: as many as there is room for, each as new as can be seen.

They are small beside the logs that they were read from, so that a listing need not read them again.
"""

from collections import OrderedDict

from everbrook.protocol.change import Edit, Write
from everbrook.protocol.state import Head

# One takes about half a KiB.
HEADS = 64 * 1024


class Heads:
    """The heads of streams, by incarnation. What was not asked for longest leaves first."""

    def __init__(self, bound: int = HEADS) -> None:
        self._bound = bound
        self._heads: OrderedDict[int, Head] = OrderedDict()

    def __len__(self) -> int:
        return len(self._heads)

    def get(self, incarnation: int) -> Head | None:
        """Give a head if it is known."""
        head = self._heads.get(incarnation)
        if head:
            self._heads.move_to_end(incarnation)
        return head

    def put(self, head: Head) -> None:
        """Keep a head, and let go of the one that it displaces."""
        self._heads[head.identity.incarnation] = head
        if len(self._heads) > self._bound:
            self._heads.popitem(last=False)

    def apply(self, edit: Edit) -> None:
        """Follow a stream that is known, and take in a new one."""
        incarnation = edit.head.identity.incarnation
        if not isinstance(edit, Write):
            self._heads.pop(incarnation, None)
        elif incarnation in self._heads:
            self._heads[incarnation] = edit.head
        elif edit.created:
            self.put(edit.head)

    def clear(self) -> None:
        """Let go of everything."""
        self._heads.clear()
