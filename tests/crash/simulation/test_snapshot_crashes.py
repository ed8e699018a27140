"""At every single moment of a publication a crash leaves the old snapshot or the new one, and all that is retained."""

from random import Random

import pytest

from everbrook.protocol import Delete
from tests.crash.bugs.bug import DURABLE
from tests.crash.simulation.store import Store, append, create
from tests.kit.views import NOW

MESSAGES = [bytes([letter]) * 90 for letter in b"abcdefgh"]


@pytest.fixture(params=DURABLE)
def store(request: pytest.FixtureRequest) -> Store:
    """A store with a stream of several files, its first snapshot, and what came after that."""
    store = Store(request.param)
    with store.machine.running(store.tape) as storage:
        store.commit(storage, create(b"a", 1), *(append(b"a", body) for body in MESSAGES))
        store.publish(storage, b"a", 2, b"old")
        store.commit(storage, *(append(b"a", body) for body in MESSAGES))
    return store


def test_the_snapshot_is_the_old_one_or_the_new_one(store: Store) -> None:
    before, begin = store.held, len(store.tape)
    with store.machine.running(store.tape) as storage:
        store.publish(storage, b"a", 3, b"new" * 100)
    assert all(found in (before, store.held) for found in store.after_every_crash(begin))


def test_a_fork_reads_what_it_inherited_while_its_source_lets_go_of_it(store: Store) -> None:
    with store.machine.running(store.tape) as storage:
        store.commit(storage, create(b"b", 4, source=b"a"))
        inherited, begin = store.held[b"b"].content, len(store.tape)
        store.publish(storage, b"a", 5, b"new")
    assert inherited == b"".join(MESSAGES) + b"abc"
    assert {found[b"b"].content for found in store.after_every_crash(begin)} == {inherited}


def test_the_end_of_a_fork_lets_its_source_go_and_nothing_else(store: Store) -> None:
    with store.machine.running(store.tape) as storage:
        store.commit(storage, create(b"b", 4, source=b"a"))
        store.publish(storage, b"a", 5, b"new")
        before, begin = store.held, len(store.tape)
        store.commit(storage, Delete(b"b", NOW))
        storage.discard(1)
        store.machine.jobs.run()
    assert all(found in (before, store.held) for found in store.after_every_crash(begin))


def test_discarding_again_after_any_crash_changes_nothing(store: Store) -> None:
    begin = len(store.tape)
    with store.machine.running(store.tape) as storage:
        store.publish(storage, b"a", 3, b"new")
    for length in range(begin, len(store.tape) + 1):
        left = store.tape.kill(length, Random(length))
        before = store.found(left)
        with store.machine.running(left) as storage:
            storage.discard(1)
            storage.discard(1)
            store.machine.jobs.run()
        assert store.found(left) == before
