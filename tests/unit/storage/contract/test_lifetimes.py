"""The contract: streams that can expire are found although nobody asks for them by name."""

from pathlib import Path

from everbrook.protocol import Head
from tests.kit.drafts import Draft
from tests.kit.stores import commit
from tests.kit.work import count_lines
from tests.unit.storage.checkpoints import HeldStorage
from tests.unit.storage.engines import Store


def heads(store: Store, slice_size: int = 100) -> list[Head]:
    """Go round the streams that can expire, a slice at a time."""
    found: list[Head] = []
    while here := store.storage.mortal(found[-1].identity.incarnation if found else 0, slice_size):
        assert len(here) <= slice_size
        found += here
    return found


def test_streams_that_can_expire_are_found_after_a_reopening(durable_store: Store) -> None:
    mortals = [Draft(b"%d" % number, number, ttl_secs=number % 3 + 1) for number in range(1, 8)]
    durable_store.commit(*((stream.write(b"x"),) for stream in mortals))
    durable_store.reopen()
    for slice_size in (1, 2, 3, 7, 100):
        assert heads(durable_store, slice_size) == [stream.head for stream in mortals]


def test_an_absolute_expiry_counts_as_well(durable_store: Store) -> None:
    stream = Draft(b"a", 1, expires_at=1)
    durable_store.commit((stream.write(b"x"),))
    durable_store.reopen()
    assert heads(durable_store) == [stream.head]


def test_streams_without_a_lifetime_are_not_among_them(durable_store: Store) -> None:
    mortal, immortal = Draft(b"a", 1, ttl_secs=1), Draft(b"b", 2)
    durable_store.commit((mortal.write(),), (immortal.write(),))
    durable_store.reopen()
    assert heads(durable_store) == [mortal.head]


def test_dropped_streams_are_not_among_them(durable_store: Store) -> None:
    one, two = Draft(b"a", 1, ttl_secs=1), Draft(b"b", 2, ttl_secs=1)
    durable_store.commit((one.write(),), (two.write(),))
    durable_store.reopen()
    durable_store.commit((one.drop(),))
    durable_store.reopen()
    assert heads(durable_store) == [two.head]


def test_a_slice_costs_the_same_however_many_were_dropped_before_it(durable_store: Store) -> None:
    """While very many streams expire, what is gone already lies behind."""
    mortals = [Draft(b"%d" % number, number, ttl_secs=1) for number in range(1, 601)]
    durable_store.commit(*((stream.write(b"x"),) for stream in mortals))
    durable_store.reopen()
    before = count_lines(lambda: durable_store.storage.mortal(500, 10))
    durable_store.commit(*((stream.drop(),) for stream in mortals[:500]))
    assert count_lines(lambda: durable_store.storage.mortal(500, 10)) < 2 * before
    assert heads(durable_store, 10) == [stream.head for stream in mortals[500:]]


def test_a_slice_costs_the_same_however_many_streams_are_in_memory(durable_store: Store) -> None:
    def create(first: int, count: int) -> None:
        streams = [Draft(b"%d" % number, number, ttl_secs=1) for number in range(first, first + count)]
        durable_store.commit(*((stream.write(),) for stream in streams))

    create(1, 100)
    durable_store.reopen()
    create(1_000, 100)
    before = count_lines(lambda: durable_store.storage.mortal(50, 10))
    create(2_000, 2_000)
    assert count_lines(lambda: durable_store.storage.mortal(50, 10)) < 2 * before


def test_streams_that_were_dropped_during_a_checkpoint_fill_no_slice(tmp_path: Path) -> None:
    storage = HeldStorage(tmp_path, checkpoint_bytes=500)
    release = storage.background.hold()
    streams = [Draft(b"%d" % number, number, ttl_secs=1) for number in range(1, 8)]
    commit(storage, *((stream.write(b"x" * 100),) for stream in streams))
    commit(storage, *((stream.drop(),) for stream in streams[:4]))
    assert storage.mortal(0, 2) == [stream.head for stream in streams[4:6]]
    release.set()
    storage.close()
