"""The contract: fork counts follow from the streams that are there (§4.2)."""

from tests.kit.drafts import Draft
from tests.unit.storage.engines import Store


def test_a_stream_without_forks_counts_none(store: Store) -> None:
    store.commit((Draft(b"s", 1).write(b"one"),))
    assert store.storage.fork_count(1) == 0


def test_the_first_write_of_a_fork_enters_it_under_its_source(store: Store) -> None:
    source = Draft(b"s", 1)
    store.commit((source.write(b"one"),), (Draft(b"f", 2, source=source, offset=3).write(),))
    assert store.storage.fork_count(1) == 1


def test_later_writes_of_a_fork_do_not_count_again(store: Store) -> None:
    source = Draft(b"s", 1)
    fork = Draft(b"f", 2, source=source)
    store.commit((source.write(b"one"),), (fork.write(),))
    store.commit((fork.write(b"more"),), (fork.write(closed=True),))
    assert store.storage.fork_count(1) == 1


def test_each_fork_counts_under_its_own_source(store: Store) -> None:
    source = Draft(b"s", 1)
    fork, other = Draft(b"f", 2, source=source), Draft(b"g", 3, source=source)
    grandchild = Draft(b"h", 4, source=fork)
    store.commit(*((stream.write(b"x"),) for stream in (source, fork, other, grandchild)))
    assert [store.storage.fork_count(number) for number in (1, 2, 3, 4)] == [2, 1, 0, 0]


def test_dropping_a_fork_takes_its_entry_out(store: Store) -> None:
    source = Draft(b"s", 1)
    fork, other = Draft(b"f", 2, source=source), Draft(b"g", 3, source=source)
    store.commit(*((stream.write(b"x"),) for stream in (source, fork, other)))
    store.commit((fork.drop(),))
    assert store.storage.fork_count(1) == 1
    store.commit((other.drop(),))
    assert store.storage.fork_count(1) == 0


def test_a_soft_deleted_source_keeps_its_forks_and_its_bytes(store: Store) -> None:
    source = Draft(b"s", 1)
    store.commit((source.write(b"one"),), (Draft(b"f", 2, source=source, offset=3).write(),))
    store.commit((source.write(deleted=True),))
    assert store.storage.fork_count(1) == 1
    assert store.storage.read(1, 0, 3) == b"one"


def test_a_whole_chain_can_go_in_one_change(store: Store) -> None:
    before = store.storage.used_bytes
    source = Draft(b"s", 1)
    fork = Draft(b"f", 2, source=source)
    grandchild = Draft(b"g", 3, source=fork)
    store.commit(*((stream.write(b"x"),) for stream in (source, fork, grandchild)))
    store.commit((grandchild.drop(), fork.drop(), source.drop()))
    assert [store.storage.load(name) for name in (b"s", b"f", b"g")] == [None] * 3
    assert [store.storage.fork_count(number) for number in (1, 2, 3)] == [0] * 3
    assert store.storage.used_bytes == before


def test_a_fork_that_is_created_anew_counts_once(store: Store) -> None:
    source = Draft(b"s", 1)
    first, second = Draft(b"f", 2, source=source), Draft(b"f", 3, source=source)
    store.commit((source.write(b"x"),), (first.write(),))
    store.commit((first.drop(), second.write()))
    assert store.storage.fork_count(1) == 1
