"""Where logs begin: the numbers of the first segments of those that have let go of older ones.

The files themselves say it too. This is what one knows without listing a folder, and what lies before it is not read
any more, whether it is there or not.
"""

from array import array
from typing import Self


class Beginnings:
    """The first segments of all logs. Of one that is not entered it is 0."""

    def __init__(self) -> None:
        self._firsts: dict[int, int] = {}
        self.moved = False
        """Whether one has moved since they were last written down."""

    def of(self, incarnation: int) -> int:
        """Give the first segment of a log."""
        return self._firsts.get(incarnation, 0)

    def move(self, incarnation: int, first: int) -> None:
        """Let a log begin with another segment."""
        if first != self.of(incarnation):
            self._firsts[incarnation] = first
            self.moved = True

    def forget(self, incarnation: int) -> None:
        """Let go of a log that was dropped."""
        self._firsts.pop(incarnation, None)

    def take(self, packed: bytes) -> None:
        """Take in what was written down."""
        pairs = array("Q", packed)
        self._firsts.update(zip(pairs[::2], pairs[1::2], strict=True))

    def pack(self) -> bytes:
        """Write them down: incarnations and first segments in pairs."""
        return array("Q", (each for pair in self._firsts.items() for each in pair)).tobytes()

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """Read what was written down."""
        beginnings = cls()
        beginnings.take(packed)
        return beginnings


def runs(numbers: list[int]) -> list[range]:
    """Part rising numbers where there are gaps."""
    found: list[range] = []
    for number in numbers:
        if found and found[-1].stop == number:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return found
