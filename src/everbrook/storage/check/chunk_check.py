"""Checking chunks: that those of each stream verify, follow one another up to its tail, and fit their indexes."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from everbrook.protocol.state import Head
from everbrook.storage.check.base_reader import BaseReader
from everbrook.storage.check.report import Notebook
from everbrook.storage.check.segment_check import SegmentCheck
from everbrook.storage.chunk import (
    chunk_length,
    damaged_block,
    inline_parts,
    is_inline,
    parse_location,
    unpack_extent,
    unpack_index,
)
from everbrook.storage.rows import CHUNKS, INCARNATION, INDEXES, PLACE, STREAMS, place_of

Tell = Callable[[int, int, str, str], None]
"""Told that a stream can't be read from an offset on, why, and where that is."""


class Followed(Struct):
    """How far the chunks of a stream have been followed."""

    incarnation: int
    head: Head | None
    end: int
    over: tuple[int, int] = (0, 0)
    """The rest of the append that goes on in the next chunk, and its time."""


class ChunkCheck:
    """Checks the chunks of all streams, in the base and in segments."""

    def __init__(self, folder: Path, base: BaseReader, notebook: Notebook, tell: Tell) -> None:
        self._base = base
        self._notebook = notebook
        self._tell = tell
        self._segments = SegmentCheck(folder, notebook)

    def run(self) -> None:
        """Check that the chunks of each stream verify and follow one another up to its tail."""
        followed: Followed | None = None
        for key, row in self._base.rows(CHUNKS):
            if len(key) != PLACE.size:
                self._notebook.damage("the row can't be read", place_of(CHUNKS, key))
                continue
            incarnation, start = PLACE.unpack(key)
            if followed is None or followed.incarnation != incarnation:
                self._check_tail(followed)
                followed = Followed(incarnation, self._base.head(incarnation), start)
                if followed.head is None and self._base.get(STREAMS, INCARNATION.pack(incarnation)) is None:
                    self._notebook.damage(f"its stream {incarnation:016x} is missing", place_of(CHUNKS, key))
            self._check_chunk(followed, key, row)
        self._check_tail(followed)
        self._check_indexes()
        self._segments.check_files(self._base)

    def _check_chunk(self, followed: Followed, key: bytes, row: bytes) -> None:
        incarnation, start = PLACE.unpack(key)
        place, length, index = place_of(CHUNKS, key), chunk_length(row), self._base.sealed(INDEXES, key)
        if start != followed.end:
            self._tell(incarnation, min(start, followed.end), f"a chunk should begin at {followed.end}", place)
        followed.end = start + length
        problem = index_problem(index, length, followed)
        if problem:
            self._tell(incarnation, start, f"its index does not fit it: {problem}", place_of(INDEXES, key))
            index = None
        if is_inline(row):
            data, checksums = inline_parts(row)
            damaged = damaged_block(key, data, 0, checksums)
            if damaged is not None:
                self._tell(incarnation, start + damaged, "the checksum of a block is wrong", place)
            return
        located = parse_location(key, row)
        if located is None:
            self._tell(incarnation, start, "the row of a chunk can't be read", place)
            return
        identity = followed.head.identity if followed.head else None
        found = self._segments.problem_of(identity, key, *located, index)
        if found:
            self._tell(incarnation, start + found[0], found[1], self._segments.place(incarnation, located[0]))

    def _check_tail(self, followed: Followed | None) -> None:
        if followed and followed.head and followed.end != followed.head.tail:
            reason = f"its bytes end at {followed.end}, its tail is {followed.head.tail}"
            place = place_of(STREAMS, INCARNATION.pack(followed.incarnation))
            self._tell(followed.incarnation, min(followed.end, followed.head.tail), reason, place)

    def _check_indexes(self) -> None:
        for key, _ in self._base.rows(INDEXES):
            if self._base.get(CHUNKS, key) is None:
                self._notebook.damage("an index without its chunk", place_of(INDEXES, key))

    def close(self) -> None:
        """Close the segment that was read last."""
        self._segments.close()


def index_problem(packed: bytes | None, size: int, followed: Followed) -> str | None:
    """Say what is wrong with the index of a chunk of `size` bytes."""
    over, followed.over = followed.over, (0, 0)
    if packed is None or unpack_extent(packed) is None:
        return "it is missing or can't be read"
    index = unpack_index(packed, 0)
    messages, appends, times = list(index.messages), list(index.appends), list(index.times)
    if len(appends) != len(times):
        return "its counts do not add up"
    if messages[0] < 1 or messages[-1] != size or not _rising(messages):
        return "its messages do not fill the chunk"
    if not _rising(appends) or appends[-1] < size or not set(appends[:-1]) <= set(messages):
        return "its appends do not end where messages do"
    if over[0] and (appends[0], times[0]) != over:
        return "it does not go on with the append before it"
    if appends[-1] > size:
        followed.over = (appends[-1] - size, times[-1])
    return None


def _rising(ends: list[int]) -> bool:
    return all(before < after for before, after in pairwise(ends))
