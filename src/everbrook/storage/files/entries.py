"""The entries of a catalogue: which stream has which name, which streams branch off which, and which time acts on.

A snapshot of them is, column by column: the counts of streams, of forks and of streams that time acts on, each in eight
bytes; the incarnations; the lengths of the names in two bytes each; the names; forks and sources in pairs; the
incarnations that time acts on; and in pairs the logs that begin with a later segment, and that segment.
"""

from array import array
from bisect import bisect_right, insort
from collections.abc import Collection, Iterable
from itertools import accumulate, pairwise
from struct import Struct
from typing import Self

from everbrook.protocol.change import Change, Write
from everbrook.protocol.state import Identity
from everbrook.storage.files.beginnings import Beginnings
from everbrook.storage.names import Names

COUNTS = Struct("<QQQ")


class Entries:
    """What is known of all streams without reading their logs."""

    def __init__(self) -> None:
        self.names: dict[bytes, int] = {}
        self.order = Names(self.names.keys())
        self.last_incarnation = 0
        self.beginnings = Beginnings()
        self._forks: dict[int, set[int]] = {}
        self._mortal: array[int] = array("Q")

    def apply(self, change: Change) -> None:
        """Enter the streams that a change creates, and take out those that it drops."""
        for edit in change:
            if not isinstance(edit, Write):
                self._drop(edit.head.identity)
            elif edit.created:
                self.enter(edit.head.identity)

    def enter(self, identity: Identity) -> None:
        """Enter a stream."""
        if identity.name not in self.names:
            self.order.add(identity.name)
        self.names[identity.name] = identity.incarnation
        self.last_incarnation = max(self.last_incarnation, identity.incarnation)
        if identity.fork:
            self._forks.setdefault(identity.fork.source_incarnation, set()).add(identity.incarnation)
        if identity.mortal:
            insort(self._mortal, identity.incarnation)

    def _drop(self, identity: Identity) -> None:
        if self.names.get(identity.name) == identity.incarnation:
            del self.names[identity.name]
            self.order.remove(identity.name)
        if identity.fork:
            siblings = self._forks.get(identity.fork.source_incarnation, set())
            siblings.discard(identity.incarnation)
            if not siblings:
                self._forks.pop(identity.fork.source_incarnation, None)
        place = bisect_right(self._mortal, identity.incarnation) - 1
        if place >= 0 and self._mortal[place] == identity.incarnation:
            del self._mortal[place]
        self.beginnings.forget(identity.incarnation)

    def fork_count(self, incarnation: int) -> int:
        """Count the streams that branch off one."""
        return len(self._forks.get(incarnation, ()))

    def forks(self, incarnation: int) -> Collection[int]:
        """Give the streams that branch off one."""
        return self._forks.get(incarnation, frozenset())

    def mortal_after(self, incarnation: int) -> "array[int]":
        """Give the streams with later incarnations that time acts on."""
        return self._mortal[bisect_right(self._mortal, incarnation) :]

    def incarnations(self) -> Iterable[int]:
        """Give every stream."""
        return self.names.values()

    def pack(self) -> bytes:
        """Write a snapshot."""
        pairs = array("Q", (each for source, forks in self._forks.items() for fork in forks for each in (fork, source)))
        parts = [COUNTS.pack(len(self.names), len(pairs) // 2, len(self._mortal))]
        parts.append(array("Q", self.names.values()).tobytes())
        parts.append(array("H", map(len, self.names)).tobytes())
        parts += self.names
        parts += (pairs.tobytes(), self._mortal.tobytes(), self.beginnings.pack())
        return b"".join(parts)

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """Read a snapshot."""
        entries = cls()
        streams, forks, mortal = COUNTS.unpack_from(packed)
        columns = _Columns(packed, COUNTS.size)
        incarnations, lengths = columns.take("Q", streams), columns.take("H", streams)
        entries.names.update(zip(columns.take_texts(lengths), incarnations, strict=True))
        entries.last_incarnation = max(incarnations, default=0)
        pairs = columns.take("Q", forks * 2)
        for fork, source in zip(pairs[::2], pairs[1::2], strict=True):
            entries._forks.setdefault(source, set()).add(fork)
        entries._mortal = columns.take("Q", mortal)
        entries.beginnings = Beginnings.unpack(columns.rest)
        return entries


class _Columns:
    """Takes columns off a snapshot, one after the other."""

    def __init__(self, packed: bytes, position: int) -> None:
        self._packed = packed
        self._position = position

    @property
    def rest(self) -> bytes:
        return self._packed[self._position :]

    def take(self, kind: str, count: int) -> "array[int]":
        column = array(kind)
        end = self._position + count * column.itemsize
        column.frombytes(self._packed[self._position : end])
        self._position = end
        return column

    def take_texts(self, lengths: "array[int]") -> list[bytes]:
        bounds = list(accumulate(lengths, initial=self._position))
        self._position = bounds[-1]
        return [self._packed[start:end] for start, end in pairwise(bounds)]
