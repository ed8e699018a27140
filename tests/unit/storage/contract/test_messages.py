"""The contract: messages are found by their place, counted and with their times."""

import random
from bisect import bisect_left, bisect_right
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from everbrook.storage import Storage
from tests.kit.drafts import NOW, Draft
from tests.unit.storage.contract.test_ranges import Appends, every_way, fill, written_streams
from tests.unit.storage.engines import ENGINES, Store, scratch_folder

# The same examples in every run.
generated = settings(max_examples=30, deadline=None, database=None)
BEHIND_ALL = 1000


def model_seek(stream: Draft, offset: int, count: int) -> tuple[int, int]:
    """Go from boundary to boundary, and see how far that leads."""
    boundaries = stream.boundaries
    here = bisect_right(boundaries, offset) - 1 if count >= 0 else bisect_left(boundaries, offset)
    place = here + count
    within = min(max(place, 0), len(boundaries) - 1)
    return boundaries[within], place - within


def model_messages(stream: Draft, start: int, end: int) -> list[tuple[int, int]]:
    ends = zip(stream.boundaries[1:], stream.times, strict=True)
    return [(each, time) for each, time in ends if start < each <= end]


def found_messages(storage: Storage, incarnation: int, start: int, end: int) -> list[tuple[int, int]]:
    found = storage.messages(incarnation, start, end)
    return list(zip(found.ends, found.times, strict=True))


@every_way
@generated
@given(written=written_streams(), counts=st.lists(st.integers(-40, 40), min_size=3, max_size=3))
def test_any_number_of_messages_is_skipped_either_way(
    *, name: str, reopening: bool, written: tuple[Draft, Appends], counts: list[int]
) -> None:
    stream, appends = written
    with scratch_folder() as folder, Store(ENGINES[name], Path(folder), reopening=reopening) as store:
        fill(store, stream, appends)
        for offset in stream.boundaries:
            for count in (-1, 0, 1, *counts):
                assert store.storage.seek(2, offset, count) == model_seek(stream, offset, count)


@every_way
@generated
@given(written=written_streams(), data=st.data())
def test_messages_are_given_with_their_times(
    *, name: str, reopening: bool, written: tuple[Draft, Appends], data: st.DataObject
) -> None:
    stream, appends = written
    with scratch_folder() as folder, Store(ENGINES[name], Path(folder), reopening=reopening) as store:
        fill(store, stream, appends)
        start = data.draw(st.integers(stream.first, stream.head.tail))
        end = data.draw(st.integers(start, stream.head.tail))
        assert found_messages(store.storage, 2, start, end) == model_messages(stream, start, end)
        for offset in range(stream.first, stream.head.tail):
            place = bisect_right(stream.boundaries, offset) - 1
            assert store.storage.index_at(2, offset).time_at(offset) == stream.times[place]


def test_a_stream_without_messages_has_nowhere_to_go(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(),))
    assert [store.storage.seek(1, 0, count) for count in (-2, 0, 3)] == [(0, -2), (0, 0), (0, 3)]
    assert found_messages(store.storage, 1, 0, 0) == []


def test_a_fork_without_messages_of_its_own_has_nowhere_to_go(store: Store) -> None:
    source = Draft(b"s", 1)
    store.commit((source.write(b"one"),), (Draft(b"f", 2, source=source, offset=3).write(),))
    assert store.storage.seek(2, 3, -1) == (3, -1)
    assert store.storage.seek(2, 3, 1) == (3, 1)


def test_going_back_from_inside_a_message_leads_to_where_it_begins(store: Store) -> None:
    """A fork may diverge there."""
    stream = Draft(b"a", 1)
    for data in (b"one", b"two", b"three"):
        store.commit((stream.write(data),))
    assert store.storage.seek(1, 5, -1) == (3, 0)
    assert store.storage.seek(1, 5, -2) == (0, 0)


def test_the_messages_of_a_batch_have_the_time_of_their_append(store: Store) -> None:
    stream = Draft(b"a", 1, json=True)
    store.commit((stream.write(b"1,", b"22,"),))
    store.commit((stream.write(b"3,"),))
    assert found_messages(store.storage, 1, 0, 7) == [(2, NOW + 1), (5, NOW + 1), (7, NOW + 2)]
    assert found_messages(store.storage, 1, 2, 6) == [(5, NOW + 1)]


def long_stream(chance: random.Random, *, json: bool) -> tuple[Draft, list[tuple[bytes, ...]]]:
    """A stream of several chunks and segments, and one message that is larger than a chunk."""
    sizes = [chance.choice([3, 50, 900, 9_000]) for _ in range(250)]
    sizes[100] = 300_000
    messages = [chance.randbytes(size) for size in sizes]
    if not json:
        return Draft(b"a", 1), [(message,) for message in messages]
    cuts = sorted({0, len(messages), *chance.sample(range(1, len(messages)), 60)})
    batches = [tuple(messages[start:end]) for start, end in pairwise(cuts)]
    return Draft(b"a", 1, json=True), batches


def assert_gone_through(store: Store, *, json: bool, reopened_at: int | None = None) -> None:
    """Write a long stream, reopen the store before one of the appends or behind the last, and look all over it."""
    chance = random.Random(7)
    stream, appends = long_stream(chance, json=json)
    for number, append in enumerate(appends):
        if number == reopened_at:
            store.reopen()
        store.commit((stream.write(*append),))
    if reopened_at == BEHIND_ALL:
        store.reopen()
    storage, boundaries = store.storage, stream.boundaries
    for _ in range(200):
        offset, count = chance.choice(boundaries), chance.randrange(-300, 300)
        assert storage.seek(1, offset, count) == model_seek(stream, offset, count)
    for _ in range(20):
        start, end = sorted(chance.sample(boundaries, 2))
        assert found_messages(storage, 1, start, end) == model_messages(stream, start, end)
        assert storage.index_at(1, start).time_at(start) == stream.times[boundaries.index(start)]


@pytest.mark.parametrize("json", [False, True], ids=["text", "json"])
def test_a_long_stream_is_gone_through_as_it_was_written(store: Store, *, json: bool) -> None:
    assert_gone_through(store, json=json)


@pytest.mark.parametrize("json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("reopened_at", [40, BEHIND_ALL], ids=["partly reopened", "reopened"])
def test_a_long_stream_is_gone_through_after_one_reopening(
    durable_store: Store, *, json: bool, reopened_at: int
) -> None:
    assert_gone_through(durable_store, json=json, reopened_at=reopened_at)
