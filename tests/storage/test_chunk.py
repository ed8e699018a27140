"""Chunks: every block has a checksum of its own place, and cutting and joining change no message."""

from itertools import accumulate

import pytest
from hypothesis import given, settings, strategies as st

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
from everbrook.storage.index import MessageIndex, Run
from everbrook.storage.rows import PLACE

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

APPENDS = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=6), min_size=1, max_size=12)


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


@settings(max_examples=150, deadline=None)
@given(appends=APPENDS, batched=st.booleans(), chunk_bytes=st.integers(1, 120))
def test_cutting_changes_no_message(*, appends: list[list[int]], batched: bool, chunk_bytes: int) -> None:
    """Also where an append goes over several chunks."""
    run = run_of(appends, batched=batched)
    chunks = cut_run(run, chunk_bytes)
    assert b"".join(chunk.data for chunk in chunks) == run.read(run.first, run.tail)
    for chunk in chunks:
        end = chunk.start + len(chunk.data)
        assert len(chunk.data) <= chunk_bytes or len(chunk.index.messages) == 1
        assert answers(chunk.index, chunk.start, end) == answers(run, chunk.start, end)


@settings(max_examples=150, deadline=None)
@given(appends=APPENDS, batched=st.booleans(), chunk_bytes=st.integers(1, 120), again=st.integers(1, 200))
def test_joining_undoes_cutting(*, appends: list[list[int]], batched: bool, chunk_bytes: int, again: int) -> None:
    run = run_of(appends, batched=batched)
    first, *rest = cut_run(run, chunk_bytes)
    for chunk in rest:
        first = joined(first, chunk)
    assert (first.start, first.data) == (run.first, run.read(run.first, run.tail))
    assert answers(first.index, run.first, run.tail) == answers(run, run.first, run.tail)
    for chunk, expected in zip(cut_chunk(first, again), cut_run(run, again), strict=True):
        assert (chunk.start, chunk.data) == (expected.start, expected.data)
        assert pack_index(chunk.index) == pack_index(expected.index)


@settings(max_examples=100, deadline=None)
@given(appends=APPENDS, batched=st.booleans(), chunk_bytes=st.integers(1, 120))
def test_an_index_is_read_back(*, appends: list[list[int]], batched: bool, chunk_bytes: int) -> None:
    for chunk in cut_run(run_of(appends, batched=batched), chunk_bytes):
        packed = pack_index(chunk.index)
        found = unpack_index(packed, chunk.start)
        end = chunk.start + len(chunk.data)
        assert answers(found, chunk.start, end) == answers(chunk.index, chunk.start, end)
        assert unpack_extent(packed) == (len(chunk.index.messages), len(chunk.data))


@given(st.binary(max_size=60))
def test_an_index_whose_counts_are_wrong_is_noticed(packed: bytes) -> None:
    if unpack_extent(packed) is not None:
        unpack_index(packed, 0)


def test_an_index_that_was_cut_is_noticed() -> None:
    [chunk] = cut_run(run_of([[3, 4], [5]], batched=True), 1_000)
    assert isinstance(chunk, Chunk)
    packed = pack_index(chunk.index)
    assert all(unpack_extent(packed[:size]) is None for size in range(len(packed)))
