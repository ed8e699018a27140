"""Ranges: what a micro-batch reads, and which task reads it. The functions do no input or output.

A batch is exactly what lies between two sets of positions, so it is the same whenever it is planned again. Streams that
did not exist before begin at their earliest offset.
"""

from collections.abc import Iterable, Mapping, Sequence
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from everbrook.spark.options import InvalidOption
from everbrook.spark.streams.catalogue import Found
from everbrook.spark.streams.offsets import (
    BEGINNING,
    EARLIEST,
    LATEST,
    STARTING,
    VERSION,
    VERSION_KEY,
    Boundary,
    format_position,
    format_version,
    is_starting,
    number_of,
    parse_position,
)

PARTITION_BYTES = 2 * 1024 * 1024
PARTITION_STREAMS = 100
SMALL_BYTES = 256 * 1024
SMALL_STREAMS = 8


class Range(Struct, frozen=True):
    """Messages of one incarnation of a stream, if that is known. A `fresh` one begins with whatever is retained."""

    name: str
    start: str
    end: str
    fresh: bool = False
    incarnation: str = ""

    @property
    def size_bytes(self) -> int | None:
        """The size of the range, if offsets count bytes."""
        start, end = number_of(self.start), number_of(self.end)
        return None if start is None or end is None else end - start


def ranges_between(start: Mapping[str, str], end: Mapping[str, str]) -> list[Range]:
    """Return the ranges between two sets of positions, in the order of the streams' names.

    There is nothing between them if a batch only fixes where a query begins.
    """
    if is_starting(end):
        return []
    moved = [(name, text) for name, text in end.items() if name != VERSION_KEY and start.get(name) != text]
    return [found for name, text in sorted(moved) if (found := _range(name, start.get(name), text)) is not None]


def _range(name: str, start: str | None, end: str) -> Range | None:
    there = parse_position(end)
    here = None if start is None else parse_position(start)
    if here is None or here.differs(there):
        empty = there.offset == BEGINNING or number_of(there.offset) == 0
        return None if empty else Range(name, BEGINNING, there.offset, fresh=True, incarnation=there.incarnation)
    if here.offset < there.offset:
        return Range(name, here.offset, there.offset, incarnation=there.incarnation)
    return None


def positions_at(ends: Mapping[str, str], cut: Mapping[str, str], token: str | None = None) -> dict[str, str]:
    """Return the positions of a batch that goes to the ends of all streams but those that are `cut` at an offset.

    They are in order, as Spark compares them as text.
    """
    positions = dict(sorted({VERSION_KEY: format_version(VERSION, token), **ends}.items()))
    for name, offset in cut.items():
        end = parse_position(ends[name])
        if offset != end.offset:
            positions[name] = format_position(end.at(offset))
    return positions


def held_back(start: Mapping[str, str], positions: dict[str, str], ranges: Iterable[Range]) -> dict[str, str]:
    """Keep the positions of streams for which a batch has no room."""
    for range_ in ranges:
        if range_.name in start:
            here, there = parse_position(start[range_.name]), parse_position(positions[range_.name])
            # The stream has grown: if it expires before the rest is read, messages are lost.
            positions[range_.name] = format_position(replace(here, expires=here.expires and here.differs(there)))
        else:
            del positions[range_.name]
    return positions


# Where a query begins, and what a batch reads


def starting_positions(boundary: Boundary, streams: Mapping[str, Found], token: str | None = None) -> dict[str, str]:
    """Fix where a query begins. Streams that are read from their beginning are left out, as new ones are."""
    require_found(boundary, streams, "startingOffsets")
    positions = {VERSION_KEY: format_version(STARTING, token)}
    for name, found in sorted(streams.items()):
        place = boundary.of(name, EARLIEST)
        if place != EARLIEST:
            offset = _offset_at(place, name, found)
            positions[name] = format_position(found.end if offset == found.tail else found.end.at(offset))
    return positions


def batch_ranges(starting: Boundary, ending: Boundary, streams: Mapping[str, Found]) -> list[Range]:
    """Return the ranges of a batch: what each stream retains between two places."""
    require_found(starting, streams, "startingOffsets")
    require_found(ending, streams, "endingOffsets")
    ranges = []
    for name, found in sorted(streams.items()):
        first, last = starting.of(name, EARLIEST), ending.of(name, LATEST)
        if last == EARLIEST:
            raise InvalidOption(f"endingOffsets must be offsets or latest, got {EARLIEST!r} for {name!r}")
        fresh, end = first == EARLIEST, _offset_at(last, name, found)
        start = found.earliest if fresh else max(_offset_at(first, name, found), found.earliest)
        if start < end and number_of(end) != 0:
            ranges.append(Range(name, start, end, fresh, found.incarnation))
    return ranges


def require_found(boundary: Boundary, streams: Mapping[str, Found], option: str) -> None:
    """Refuse offsets of streams that are not read."""
    missing = sorted(boundary.offsets.keys() - streams.keys())
    if missing:
        raise InvalidOption(f"{option} names {missing[0]!r}, which does not exist or is not selected")


def _offset_at(place: str, name: str, found: Found) -> str:
    if place == LATEST:
        return found.tail
    if place > found.tail:
        raise InvalidOption(f"offset {place} is beyond the end of {name!r}, which is {found.tail}")
    return place


# What each task does


def small(ranges: Sequence[Range]) -> bool:
    """Return whether the driver reads a batch in less time than an executor takes to start."""
    sizes = [range_.size_bytes for range_ in ranges]
    return len(ranges) <= SMALL_STREAMS and all(size is not None for size in sizes) and _sum(sizes) <= SMALL_BYTES


def partition_count(ranges: Sequence[Range], min_partitions: int, max_partitions: int) -> int:
    """Choose how many tasks to use: each costs about 40 ms, so not more than there is work for."""
    by_bytes = -(-_sum(range_.size_bytes for range_ in ranges) // PARTITION_BYTES)
    by_streams = -(-len(ranges) // PARTITION_STREAMS)
    return max(min_partitions, min(max_partitions, max(by_bytes, by_streams, 1)))


def grouped(ranges: Sequence[Range], count: int) -> list[list[Range]]:
    """Split ranges among tasks. The name of a stream decides its group, whatever else is read."""
    groups: list[list[Range]] = [[] for _ in range(count)]
    for range_ in ranges:
        # Unlike `hash`, crc32 is the same in every process.
        groups[crc32(range_.name.encode()) % count].append(range_)
    return [group for group in groups if group]


def _sum(sizes: Iterable[int | None]) -> int:
    return sum(size or 0 for size in sizes)
