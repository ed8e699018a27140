"""Chunks: every block has a checksum of its own place, and cutting and joining change no message."""

import struct
from array import array
from itertools import accumulate
from typing import Literal

import pytest
from hypothesis import given, settings, strategies as st

from everbrook.storage.base_rows import PLACE
from everbrook.storage.chunk import (
    BLOCK_BYTES,
    Chunk,
    Location,
    block_bounds,
    block_checksums,
    chunk_length,
    cut_chunk,
    cut_run,
    damaged_block,
    inline_parts,
    is_inline,
    joined,
    pack_index,
    pack_inline,
    pack_location,
    parse_location,
    unpack_extent,
    unpack_index,
)
from everbrook.storage.message_index import SPAN_BYTES, MessageIndex, Run, moved

KEY = PLACE.pack(3, 100)
SIZES = [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES, 131_072]


@pytest.mark.parametrize("size", SIZES)
def test_a_row_gives_back_the_bytes_and_the_checksums_of_its_chunk(size: int) -> None:
    data = bytes(number % 251 for number in range(size))
    row = pack_inline(KEY, data)
    found, checksums = inline_parts(row)
    assert is_inline(row)
    assert (found, chunk_length(row)) == (data, size)
    assert checksums == block_checksums(KEY, data)
    assert damaged_block(KEY, found, 0, checksums) is None


def test_a_flip_is_found_in_its_block_and_in_no_other() -> None:
    whole = bytes(3 * BLOCK_BYTES + 10)
    checksums = block_checksums(KEY, whole)
    data = whole[: BLOCK_BYTES + 5] + b"\1" + whole[BLOCK_BYTES + 6 :]
    assert damaged_block(KEY, data, 0, checksums) == BLOCK_BYTES
    assert damaged_block(KEY, data[:BLOCK_BYTES], 0, checksums) is None
    assert damaged_block(KEY, data[2 * BLOCK_BYTES :], 2 * BLOCK_BYTES, checksums) is None


def test_a_block_in_the_place_of_another_does_not_verify() -> None:
    data = bytes(2 * BLOCK_BYTES)
    checksums = block_checksums(KEY, data)
    assert damaged_block(KEY, data[:BLOCK_BYTES], 0, checksums[4:]) == 0
    assert damaged_block(PLACE.pack(4, 100), data, 0, checksums) == 0
    assert damaged_block(PLACE.pack(3, 101), data, 0, checksums) == 0


@given(st.integers(0, 40_000), st.integers(0, 40_000), st.integers(1, 40_000))
def test_the_blocks_of_a_range_hold_it(start: int, size: int, length: int) -> None:
    start, end = min(start, length), min(start + size, length)
    first, last = block_bounds(start, end, length)
    assert first <= start
    assert first % BLOCK_BYTES == 0
    assert start == end or end <= last <= length
    assert last - first < end - start + 2 * BLOCK_BYTES


def test_a_location_is_read_back_and_a_flip_in_it_is_found() -> None:
    location, checksums = Location(2**40, 77, 10_000), block_checksums(KEY, bytes(10_000))
    row = pack_location(KEY, location, checksums)
    assert parse_location(KEY, row) == (location, checksums)
    assert (is_inline(row), chunk_length(row)) == (False, 10_000)
    for position in range(len(row)):
        assert parse_location(KEY, row[:position] + bytes([row[position] ^ 8]) + row[position + 1 :]) is None
    assert parse_location(PLACE.pack(3, 101), row) is None


@given(kind=st.sampled_from([b"", b"\0", b"\1", b"\2"]), rest=st.binary(max_size=40))
def test_a_row_of_any_bytes_is_whole_or_damaged_and_never_an_error(kind: bytes, rest: bytes) -> None:
    row = kind + rest
    chunk_length(row)
    if is_inline(row):
        data, checksums = inline_parts(row)
        assert not data or damaged_block(KEY, data, 0, checksums) == 0
    else:
        assert parse_location(KEY, row) is None


# Cutting and joining

APPENDS = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=30), min_size=1, max_size=12)
FIRST = st.sampled_from([0, 50, SPAN_BYTES - 30, 2**40 + 5 * SPAN_BYTES - 100])


def run_of(appends: list[list[int]], *, batched: bool, first: int = 50) -> Run:
    """Make a run of appends, each of messages of some sizes. Where they are not batches, each is one message."""
    run = Run(first, batched=batched)
    single = [[size] for append in appends for size in append]
    for time, sizes in enumerate(appends if batched else single):
        ends = tuple(accumulate(sizes, initial=run.tail))[1:]
        run.append(bytes((time * 7 + place) % 256 for place in range(sum(sizes))), ends, 1000 + time)
    return run


def answers(index: MessageIndex, start: int, end: int) -> list[tuple[int, int, int, int]]:
    """Ask everything about every byte of a range."""
    return [
        (
            index.boundary_at_or_before(offset),
            index.boundary_after(offset),
            index.time_at(offset),
            max(min(index.append_end(offset), end), start),
        )
        for offset in range(start, end)
    ]


CHUNK_BYTES = st.integers(1, 120) | st.integers(400, 1_000)


def pack_long(chunk: Chunk) -> bytes:
    """Write an index in the form that is not short, whatever its length."""
    index, before = chunk.index, chunk.start - chunk.index.base
    appends = [] if index.appends is index.messages else index.appends
    counts = struct.pack("<III", len(index.messages), len(appends), len(index.times))
    ends = array("I", (end - before for ends in (index.messages, appends) for end in ends))
    return counts + ends.tobytes() + index.times.tobytes()


@settings(max_examples=150, deadline=None)
@given(appends=APPENDS, batched=st.booleans(), chunk_bytes=CHUNK_BYTES, first=FIRST)
def test_cutting_changes_no_message(*, appends: list[list[int]], batched: bool, chunk_bytes: int, first: int) -> None:
    """Also where an append goes over several chunks."""
    run = run_of(appends, batched=batched, first=first)
    chunks = cut_run(run, chunk_bytes)
    assert b"".join(chunk.data for chunk in chunks) == run.read(run.first, run.tail)
    for chunk in chunks:
        end = chunk.start + len(chunk.data)
        assert len(chunk.data) <= chunk_bytes or len(chunk.index.messages) == 1
        assert answers(chunk.index, chunk.start, end) == answers(run, chunk.start, end)


@settings(max_examples=150, deadline=None)
@given(appends=APPENDS, batched=st.booleans(), chunk_bytes=CHUNK_BYTES, again=st.integers(1, 200), place=FIRST)
def test_joining_undoes_cutting(
    *, appends: list[list[int]], batched: bool, chunk_bytes: int, again: int, place: int
) -> None:
    run = run_of(appends, batched=batched, first=place)
    first, *rest = cut_run(run, chunk_bytes)
    for chunk in rest:
        first = joined(first, chunk)
    assert (first.start, first.data) == (run.first, run.read(run.first, run.tail))
    assert answers(first.index, run.first, run.tail) == answers(run, run.first, run.tail)
    for chunk, expected in zip(cut_chunk(first, again), cut_run(run, again), strict=True):
        assert (chunk.start, chunk.data) == (expected.start, expected.data)
        assert pack_index(chunk.index) == pack_index(expected.index)


@settings(max_examples=100, deadline=None)
@given(appends=APPENDS, batched=st.booleans(), chunk_bytes=CHUNK_BYTES, first=FIRST)
def test_an_index_is_read_back(*, appends: list[list[int]], batched: bool, chunk_bytes: int, first: int) -> None:
    """In the short form and in the other one, which short indexes have and earlier versions wrote for all."""
    for chunk in cut_run(run_of(appends, batched=batched, first=first), chunk_bytes):
        packed = pack_index(chunk.index)
        found = unpack_index(packed, chunk.start)
        long = unpack_index(pack_long(chunk), chunk.start)
        assert answers(long, chunk.start, chunk.start + len(chunk.data)) == answers(
            found, chunk.start, chunk.start + len(chunk.data)
        )
        end = chunk.start + len(chunk.data)
        assert answers(found, chunk.start, end) == answers(chunk.index, chunk.start, end)
        assert unpack_extent(packed) == (len(chunk.index.messages), len(chunk.data))


@given(st.integers(0, 3), st.binary(max_size=60))
def test_a_short_index_whose_counts_are_wrong_is_noticed(count: int, rest: bytes) -> None:
    packed = struct.pack("<I", 2**31 + count) + rest
    if unpack_extent(packed) is not None:
        unpack_index(packed, 0)


def test_a_short_index_with_a_flip_in_its_counts_is_noticed() -> None:
    [chunk] = cut_run(run_of([[2] * 40], batched=True, first=SPAN_BYTES - 20), 1_000)
    packed = pack_index(chunk.index)
    counts = struct.unpack_from("<IIIIIII", packed)
    assert counts == (2**31 + 40, 1, 1, 80, 2, 9, 31)
    for place in (0, 1, 2, 4, 5, 6):
        wrong = list(counts)
        wrong[place] += 1
        assert unpack_extent(struct.pack("<7I", *wrong) + packed[28:]) is None


@given(st.lists(st.integers(0, 2**34), unique=True, max_size=40), st.integers(0, 8), st.sampled_from("IQ"))
def test_ends_are_moved_as_by_adding(ends: list[int], spans: int, typecode: Literal["I", "Q"]) -> None:
    values = array("Q", sorted({end % 2**31 if typecode == "I" else end for end in ends}))
    shift = spans * SPAN_BYTES
    assert moved(values, shift, typecode).tolist() == [end + shift for end in values]
    there = moved(values, shift, "Q")
    assert moved(there, -shift, typecode) == array(typecode, values)
    assert moved(values, shift + 3, "Q").tolist() == [end + shift + 3 for end in values]


@given(st.binary(max_size=60))
def test_an_index_whose_counts_are_wrong_is_noticed(packed: bytes) -> None:
    if unpack_extent(packed) is not None:
        unpack_index(packed, 0)


def test_an_index_that_was_cut_is_noticed() -> None:
    [chunk] = cut_run(run_of([[3, 4], [5]], batched=True), 1_000)
    assert isinstance(chunk, Chunk)
    packed = pack_index(chunk.index)
    assert all(unpack_extent(packed[:size]) is None for size in range(len(packed)))
