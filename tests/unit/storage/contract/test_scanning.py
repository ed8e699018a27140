"""The contract: names are given in order, a page at a time, and counted."""

from collections.abc import Iterator

import pytest

from everbrook.storage import Storage
from tests.kit.drafts import Draft
from tests.unit.storage.engines import Store

NAMES = [b"/a/1", b"/a/2", b"/a/20", b"/a/3", b"/b", b"/b/1", b"/b\xff", b"/c/\xc3\xa4"]


@pytest.fixture
def filled(store: Store) -> Store:
    """A store with streams that were not created in the order of their names."""
    for number, name in enumerate(reversed(NAMES), 1):
        store.commit((Draft(name, number).write(b"x"),))
    return store


def names(storage: Storage, prefix: bytes = b"/", after: bytes = b"", limit: int = 100) -> list[bytes]:
    return [name for name, _ in storage.scan(prefix, after, limit)]


def test_an_empty_store_has_no_names(store: Store) -> None:
    assert store.storage.scan(b"/", b"", 10) == []
    assert store.storage.count(b"/") == 0


def test_names_come_in_the_order_of_their_bytes(filled: Store) -> None:
    assert names(filled.storage) == NAMES


def test_only_names_with_the_prefix_come(filled: Store) -> None:
    assert names(filled.storage, b"/a/") == NAMES[:4]
    assert names(filled.storage, b"/a/2") == [b"/a/2", b"/a/20"]
    assert names(filled.storage, b"/b") == [b"/b", b"/b/1", b"/b\xff"]
    assert names(filled.storage, b"/d") == []
    assert names(filled.storage, b"/c/\xc3\xa4" * 300) == []


@pytest.mark.parametrize(
    "after, first", [(b"/a/1", 1), (b"/a/15", 1), (b"/a/2", 2), (b"/", 0), (b"/b\xff", 7), (b"/z", 8), (b"/b" * 999, 6)]
)
def test_a_page_begins_behind_a_name_whether_it_is_there_or_not(filled: Store, after: bytes, first: int) -> None:
    assert names(filled.storage, b"/", after) == NAMES[first:]


def test_pages_follow_one_another(filled: Store) -> None:
    found, after = [], b""
    while page := names(filled.storage, b"/", after, 3):
        assert len(page) <= 3
        found += page
        after = page[-1]
    assert found == NAMES


def test_each_name_comes_with_the_head_of_its_stream(store: Store) -> None:
    one, two = Draft(b"/one", 1), Draft(b"/two", 2, ttl_secs=60)
    store.commit((one.write(b"x"),), (two.write(b"y", closed=True),))
    store.commit((one.write(b"more"),))
    assert store.storage.scan(b"/", b"", 10) == [(b"/one", one.head), (b"/two", two.head)]


def test_a_soft_deleted_stream_still_has_its_name(store: Store) -> None:
    stream = Draft(b"/a", 1)
    store.commit((stream.write(b"x"),))
    store.commit((stream.write(deleted=True),))
    assert store.storage.scan(b"/", b"", 10) == [(b"/a", stream.head)]
    assert store.storage.count(b"/") == 1


def test_a_dropped_stream_has_none(store: Store) -> None:
    streams = [Draft(b"/%d" % number, number) for number in range(1, 6)]
    store.commit(*((stream.write(b"x"),) for stream in streams))
    store.commit(*((stream.drop(),) for stream in streams[1:4]))
    assert names(store.storage) == [b"/1", b"/5"]
    assert names(store.storage, limit=1, after=b"/1") == [b"/5"]


def test_a_stream_that_was_created_anew_comes_once(store: Store) -> None:
    old, new = Draft(b"/a", 1), Draft(b"/a", 2)
    store.commit((old.write(b"x"),))
    store.commit((old.drop(), new.write(b"y")))
    assert store.storage.scan(b"/", b"", 10) == [(b"/a", new.head)]


def churn(store: Store) -> Iterator[set[bytes]]:
    """Let streams come, go and come again. Gives the names that are there."""
    streams: dict[bytes, Draft] = {}
    for number in range(1, 60):
        name = b"/%d/%d" % (number % 3, number * 7 % 20)
        old = streams.pop(name, None)
        if old:
            store.commit((old.drop(),))
        if not old or number % 2:
            streams[name] = Draft(name, number)
            store.commit((streams[name].write(b"x" * 20),))
        yield set(streams)


def test_names_and_counts_follow_what_comes_and_goes(store: Store) -> None:
    for there in churn(store):
        assert names(store.storage) == sorted(there)
        for prefix in (b"/", b"/1/", b"/2/1"):
            expected = sum(name.startswith(prefix) for name in there)
            assert store.storage.count(prefix) == expected


def test_a_count_is_right_when_it_is_asked_for_late(durable_store: Store) -> None:
    *_, there = churn(durable_store)
    assert durable_store.storage.count(b"/1/") == sum(name.startswith(b"/1/") for name in there)
    durable_store.reopen()
    assert durable_store.storage.count(b"/1/") == sum(name.startswith(b"/1/") for name in there)


def test_the_last_incarnation_is_known(store: Store) -> None:
    assert store.storage.last_incarnation == 0
    for incarnation in (5, 2**40, 2**63):
        store.commit((Draft(b"/%d" % incarnation, incarnation).write(b"x"),))
        assert store.storage.last_incarnation == incarnation


def test_the_last_incarnation_is_that_of_a_stream_that_is_there(durable_store: Store) -> None:
    last = Draft(b"/b", 9)
    durable_store.commit((Draft(b"/a", 7).write(b"x"),), (last.write(b"x"),))
    durable_store.reopen()
    assert durable_store.storage.last_incarnation == 9
    durable_store.commit((last.drop(),))
    durable_store.reopen()
    assert durable_store.storage.last_incarnation >= 7


def test_counts_stay_right_when_more_are_asked_for_than_are_remembered(store: Store) -> None:
    for number in range(1, 5):
        store.commit((Draft(b"/%d/a" % number, number).write(b"x"),))
        counts = [store.storage.count(b"/%d/" % each) for each in range(1, 5)]
        assert counts == [int(each <= number) for each in range(1, 5)]
