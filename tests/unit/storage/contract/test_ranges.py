"""The contract: any range can be read, and the boundaries of messages and appends are where they were written."""

import random
from itertools import accumulate, combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.kit.drafts import Draft
from tests.unit.storage.engines import ENGINES, WAY_NAMES, WAYS, Store, scratch_folder

# The same examples in every run.
generated = settings(max_examples=30, deadline=None, database=None)

messages = st.binary(min_size=1, max_size=12)
Appends = list[list[bytes]]
every_way = pytest.mark.parametrize("name,reopening", WAYS, ids=WAY_NAMES)


@st.composite
def written_streams(draw: st.DrawFn) -> tuple[Draft, Appends]:
    """A stream, perhaps a fork whose own bytes begin further on, and what is to be appended to it."""
    json = draw(st.booleans())
    offset = draw(st.sampled_from([0, 7, 10**12]))
    stream = Draft(b"a", 2, json=json, source=Draft(b"s", 1) if offset else None, offset=offset)
    append = st.lists(messages, min_size=1, max_size=4 if json else 1)
    return stream, draw(st.lists(append, min_size=1, max_size=8))


def fill(store: Store, stream: Draft, appends: Appends) -> None:
    store.commit((stream.write(),))
    store.commit(*((stream.write(*append),) for append in appends))


@every_way
@generated
@given(written=written_streams(), data=st.data())
def test_any_range_can_be_read(
    *, name: str, reopening: bool, written: tuple[Draft, Appends], data: st.DataObject
) -> None:
    stream, appends = written
    with scratch_folder() as folder, Store(ENGINES[name], Path(folder), reopening=reopening) as store:
        fill(store, stream, appends)
        start = data.draw(st.integers(stream.first, stream.head.tail))
        end = data.draw(st.integers(start, stream.head.tail))
        assert store.storage.read(2, start, end) == stream.data[start - stream.first : end - stream.first]


@every_way
@generated
@given(written=written_streams())
def test_boundaries_are_where_they_were_written(*, name: str, reopening: bool, written: tuple[Draft, Appends]) -> None:
    stream, appends = written
    with scratch_folder() as folder, Store(ENGINES[name], Path(folder), reopening=reopening) as store:
        fill(store, stream, appends)
        storage, boundaries, append_ends = store.storage, stream.boundaries, stream.append_ends
        for offset in range(stream.first, stream.head.tail + 1):
            assert storage.boundary_at_or_before(2, offset) == max(end for end in boundaries if end <= offset)
        for offset in range(stream.first, stream.head.tail):
            assert storage.index_at(2, offset).boundary_after(offset) == min(end for end in boundaries if end > offset)
            assert storage.index_at(2, offset).append_end(offset) == min(end for end in append_ends if end > offset)


def test_an_offset_beyond_the_tail_has_the_tail_as_its_last_boundary(store: Store) -> None:
    store.commit((Draft(b"a", 1).write(b"one"),))
    assert store.storage.boundary_at_or_before(1, 2**62) == 3


def test_an_empty_range_is_empty(store: Store) -> None:
    store.commit((Draft(b"a", 1).write(b"one"),))
    assert [store.storage.read(1, offset, offset) for offset in range(4)] == [b""] * 4


def test_what_was_read_does_not_change_when_more_comes(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(b"one"),))
    read = store.storage.read(1, 0, 3)
    store.commit((stream.write(b"two"),))
    assert (read, store.storage.read(1, 0, 6)) == (b"one", b"onetwo")


SIZES = [1000] * 100 + [70_000, 10, 65_536, 1, 65_535, 65_535, 200_000]


def test_small_and_large_appends_are_read_across(store: Store) -> None:
    stream = Draft(b"a", 1)
    body = random.Random(7).randbytes(sum(SIZES))
    ends = list(accumulate(SIZES))
    for start, end in pairwise([0, *ends]):
        store.commit((stream.write(body[start:end]),))
    assert store.storage.read(1, 0, len(body)) == body
    for end in ends[:-1]:
        assert store.storage.read(1, end - 500, end + 500) == body[end - 500 : end + 500]
    for start, end in combinations([0, *ends[98:]], 2):
        assert store.storage.read(1, start, end) == body[start:end]
