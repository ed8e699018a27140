"""Limits: how far each stream is read in a micro-batch, so that the batch stays within its limits.

Each stream gets a quantum, or all that it has, and the rest is shared by size, so a small backlog does not wait for a
large one. If the limit is too small for that, streams take turns: one that gets nothing is first in the next batch.
A message is never cut: the server reports where messages end, in one request for each stream that is cut, all of them
over one connection.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from everbrook.protocol.errors import NotFound, OffsetGone, PreconditionFailed
from everbrook.spark.connection import Connection
from everbrook.spark.http_pipeline import OK, Broken, PipelinedConnection, target_of
from everbrook.spark.options import Limits
from everbrook.spark.streams.ranges import Range

ROWS_QUANTUM = 100
BYTES_QUANTUM = 16 * 1024
Unit = Literal["skip", "max_bytes"]
_CHANGED = (NotFound, OffsetGone, PreconditionFailed)

logger = logging.getLogger(__name__)

MANY = 8
"""From this number on, lookups are pipelined over a connection of their own."""


class Lookup(Struct, frozen=True):
    """A lookup of the offset that is a number of messages, or of bytes, after another one of a stream.

    The result is the tail if there are fewer. Of bytes it is the end of a message, and of one message at least.
    """

    name: str
    offset: str
    unit: Unit
    count: int
    incarnation: str = ""

    @property
    def query(self) -> dict[str, str]:
        return {"offset": self.offset, self.unit: str(self.count)}


SendLookups = Callable[[Sequence[Lookup]], list[str]]
"""Sends lookups to the server, and returns the offsets in their order."""


def in_turn(ranges: Sequence[Range], first: str) -> list[Range]:
    """Rotate ranges, which are sorted by name, so that the first is the one of `first`, or the next one."""
    place = bisect_left(ranges, first, key=lambda range_: range_.name)
    return [*ranges[place:], *ranges[:place]]


def limit(ranges: Sequence[Range], limits: Limits, send: SendLookups) -> dict[str, str]:
    """Return the offset up to which each stream is read. Streams that wait for the next batch are left out.

    Ranges are in the order of their turn: the first is never left out.
    """
    if limits.max_rows is not None:
        ranges = _limit_rows(ranges, limits.max_rows, send)
    if limits.max_bytes is not None:
        ranges = _limit_bytes(ranges, limits.max_bytes, send)
    return {range_.name: range_.end for range_ in ranges}


def shares(sizes: Mapping[str, int], total: int, quantum: int) -> dict[str, int]:
    """Divide `total` among the first streams: each gets a quantum, or all that it has, and the rest by its size."""
    parts: dict[str, int] = {}
    left = total
    for name, size in sizes.items():
        least = min(size, quantum)
        if parts and least > left:
            break
        parts[name] = min(least, left)
        left -= parts[name]
    more = {name: sizes[name] - part for name, part in parts.items()}
    whole = sum(more.values()) or 1
    return {name: part + left * more[name] // whole for name, part in parts.items()}


def _limit_rows(ranges: Sequence[Range], max_rows: int, send: SendLookups) -> Sequence[Range]:
    # A message has at least one byte, so that the number of bytes bounds the number of messages.
    sizes = {range_.name: size_of(range_) for range_ in ranges}
    if sum(sizes.values()) <= max_rows:
        return ranges
    return _cut(ranges, shares(sizes, max_rows, ROWS_QUANTUM), "skip", send)


def _limit_bytes(ranges: Sequence[Range], max_bytes: int, send: SendLookups) -> Sequence[Range]:
    sizes = {range_.name: size_of(range_) for range_ in ranges}
    if sum(sizes.values()) <= max_bytes:
        return ranges
    taken: list[Range] = []
    left = max_bytes
    for range_ in _cut(ranges, shares(sizes, max_bytes, BYTES_QUANTUM), "max_bytes", send):
        # A message that is larger than its share waits until its stream is first, and may then fill the batch.
        if not taken or size_of(range_) <= left:
            taken.append(range_)
            left -= size_of(range_)
    return taken


def _cut(ranges: Sequence[Range], parts: Mapping[str, int], unit: Unit, send: SendLookups) -> list[Range]:
    """Cut ranges to their parts. A part in bytes has one message at least, even if that is larger."""
    chosen = [range_ for range_ in ranges if range_.name in parts]
    long = [range_ for range_ in chosen if size_of(range_) > parts[range_.name]]
    lookups = [Lookup(range_.name, range_.start, unit, parts[range_.name], range_.incarnation) for range_ in long]
    found = dict(zip((range_.name for range_ in long), send(lookups), strict=True))
    # The stream may have grown since the plan, and the offset that was found may be beyond the end of the range.
    return [replace(range_, end=min(found.get(range_.name, range_.end), range_.end)) for range_ in chosen]


def split(range_: Range, count: int, send: SendLookups) -> list[Range]:
    """Split a range into about `count` pieces of the same size, where messages end."""
    size = size_of(range_)
    bounds = [max(1, size * part // count) for part in range(1, count)]
    ends = send([Lookup(range_.name, range_.start, "max_bytes", bound, range_.incarnation) for bound in bounds])
    cuts = sorted({end for end in ends if range_.start < end < range_.end})
    return [
        replace(range_, start=start, end=end, fresh=range_.fresh and start == range_.start)
        for start, end in zip((range_.start, *cuts), (*cuts, range_.end), strict=True)
    ]


def split_all(ranges: Sequence[Range], count: int, send: SendLookups) -> list[list[Range]]:
    """Split ranges into about `count` tasks or more, in the order of the streams and their messages."""
    whole = sum(size_of(range_) for range_ in ranges)
    counts = [max(1, round(count * size_of(range_) / whole)) for range_ in ranges]
    return [[piece] for range_, part in zip(ranges, counts, strict=True) for piece in split(range_, part, send)]


def size_of(range_: Range) -> int:
    """Return the bytes of a range, whose offsets have to be numbers."""
    size = range_.size_bytes
    if size is None:
        raise ValueError(
            f"offsets of {range_.name!r}, such as {range_.start!r}, don't count bytes: leave out maxRowsPerTrigger, "
            "maxBytesPerTrigger and minPartitions"
        )
    return max(size, 1)


def look_up_all(connection: Connection, lookups: Sequence[Lookup]) -> list[str]:
    """Look up offsets, and return them in the order of the lookups."""
    found: list[str] = []
    pipeline = connection.pipeline() if len(lookups) >= MANY else None
    if pipeline is not None:
        with closing(pipeline):
            found += _pipelined(connection, lookups, pipeline)
    return found + [_look_up(connection, each) for each in lookups[len(found) :]]


def _look_up(connection: Connection, lookup: Lookup) -> str:
    """Look up an offset. If the stream has changed since the plan, return the first offset, so that nothing is read."""
    try:
        return connection.look_up(lookup.name, lookup.query, lookup.incarnation)
    except _CHANGED as refusal:
        logger.info("%r has changed since the batch was planned, and is left to the next one: %s", lookup.name, refusal)
        return lookup.offset


def _pipelined(connection: Connection, lookups: Sequence[Lookup], pipeline: PipelinedConnection) -> Iterator[str]:
    """Look up offsets until the connection breaks. The general client repeats each lookup that is refused."""
    targets = (target_of(connection.root.stream(each.name), each.query) for each in lookups)
    try:
        for each, response in zip(lookups, pipeline.head(targets, connection.transport.credentials), strict=True):
            usable = response.status == OK and response.is_of(each.incarnation)
            offset = response.headers.get(b"stream-offset") if usable else None
            yield _look_up(connection, each) if offset is None else offset.decode()
    except Broken as error:
        logger.info("a pipelined connection broke, so the other lookups are sent one by one: %s", error)
