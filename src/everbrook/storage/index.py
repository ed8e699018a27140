"""An index of consecutive messages: where they and the appends that brought them end, and when those came.

Positions are kept relative to `base`. Where appends are not batches, an append is a message and one array serves both.
An append that goes on behind the last message, or began before the first one, is in the index all the same.
"""

from array import array
from bisect import bisect_left, bisect_right

from msgspec import Struct


class Messages(Struct, frozen=True):
    """Consecutive messages: the offsets at which they end, and the time at which each was appended."""

    ends: "array[int]"
    times: "array[int]"


class MessageIndex:
    """Where messages end, from offset `first` on."""

    __slots__ = ("appends", "base", "first", "messages", "times")

    def __init__(
        self, base: int, first: int, messages: "array[int]", appends: "array[int]", times: "array[int]"
    ) -> None:
        self.base = base
        self.first = first
        self.messages = messages
        self.appends = appends
        self.times = times

    def boundary_at_or_before(self, offset: int) -> int:
        """Give the last message boundary not greater than `offset`."""
        place = bisect_right(self.messages, offset - self.base)
        return self.base + self.messages[place - 1] if place else self.first

    def boundary_after(self, offset: int) -> int:
        """Give the first message boundary greater than `offset`."""
        return self.base + self.messages[bisect_right(self.messages, offset - self.base)]

    def append_end(self, offset: int) -> int:
        """Give the end of the append that holds the byte at `offset`."""
        return self.base + self.appends[bisect_right(self.appends, offset - self.base)]

    def time_at(self, offset: int) -> int:
        """Give the time of the append that holds the byte at `offset`."""
        return self.times[bisect_right(self.appends, offset - self.base)]

    def seek(self, offset: int, count: int) -> tuple[int, int]:
        """Go `count` messages on, backwards if negative, as far as the index reaches.

        Gives where that leads, and how many messages are left to go.
        """
        if count >= 0:
            place = bisect_right(self.messages, offset - self.base) + count - 1
            last = len(self.messages) - 1
            return self._boundary(min(place, last)), max(0, place - last)
        if offset <= self.first:
            return self.first, count
        place = bisect_left(self.messages, offset - self.base) + count
        return self._boundary(max(place, -1)), min(0, place + 1)

    def _boundary(self, place: int) -> int:
        """Give where the message at a place ends; that at -1 is the one before the first."""
        return self.base + self.messages[place] if place >= 0 else self.first

    def messages_between(self, start: int, end: int) -> Messages:
        """Give the messages that end after `start` and not after `end`."""
        first, last = bisect_right(self.messages, start - self.base), bisect_right(self.messages, end - self.base)
        ends = array("Q", self.messages[first:last])
        if self.base:
            ends = array("Q", [self.base + each for each in ends])
        if self.appends is self.messages:
            return Messages(ends, self.times[first:last])
        return Messages(ends, self._times_of(first, last))

    def _times_of(self, first: int, last: int) -> "array[int]":
        """Give the time of each message from `first` to `last`: that of the append that it came with."""
        times = array("Q")
        if first == last:
            return times
        append = bisect_left(self.appends, self.messages[first])
        last_append = bisect_left(self.appends, self.messages[last - 1])
        if last_append - append == last - first - 1:
            # An append for each message, as where none is a batch.
            return self.times[append : last_append + 1]
        while first < last:
            after = min(last, bisect_right(self.messages, self.appends[append]))
            times.extend(self.times[append : append + 1] * (after - first))
            first = after
            append += 1
        return times
