"""What a crash simulator found in another server of this protocol must not be found here."""

from random import Random

import pytest
from msgspec.structs import replace

from everbrook.engine.limits import Limits
from everbrook.protocol import Create, Delete
from everbrook.storage.record import FRAME, STREAM
from tests.crash.bugs.bug import DURABLE
from tests.crash.simulation.modes import MODES
from tests.crash.simulation.operations import Wrote
from tests.crash.simulation.snapshot import stored_snapshot
from tests.crash.simulation.store import Store, append, create
from tests.crash.simulation.tape import Tape
from tests.crash.simulation.workload import NAMES
from tests.kit.fakes import FakeClock, FakeScheduler
from tests.kit.views import NOW, TEXT


@pytest.fixture(params=MODES)
def store(request: pytest.FixtureRequest) -> Store:
    return Store(request.param)


@pytest.fixture(params=DURABLE)
def durable(request: pytest.FixtureRequest) -> Store:
    return Store(request.param)


def test_files_that_rolled_between_two_starts_are_neither_made_again_nor_forgotten(store: Store) -> None:
    """Another server took the zeros of a file that it made again for the end, and cut everything back to match."""
    with store.machine.running(store.tape) as storage:
        store.commit(storage, create(b"a", 1))
    for start in range(4):
        with store.machine.running(store.tape) as storage:
            assert stored_snapshot(storage, NAMES) == store.held
            store.commit(storage, *(append(b"a", b"%d" % start * 600) for _ in range(3)))
    assert store.found(store.tape) == store.held


def test_a_quiet_stream_shows_no_torn_bytes(durable: Store) -> None:
    """Another server had no proof of the length of a stream that the journal did not speak of."""
    with durable.machine.running(durable.tape) as storage:
        durable.commit(storage, create(b"a", 1), append(b"a", b"quiet" * 200))
        storage.close()
    before = durable.held
    with durable.machine.running(durable.tape) as storage:
        durable.commit(storage, append(b"a", b"torn" * 100))
    operations = durable.tape.operations
    last_write = max(number for number, each in enumerate(operations) if isinstance(each, Wrote))
    assert all(found in (before, durable.held) for found in durable.after_power_failures(last_write + 1))


def test_an_acknowledged_deletion_is_durable(durable: Store) -> None:
    """Another server brought deleted streams back, with their data."""
    with durable.machine.running(durable.tape) as storage:
        durable.commit(storage, create(b"a", 1), create(b"b", 2), create(b"c", 3, source=b"b"))
        durable.commit(storage, Delete(b"a", NOW), Delete(b"b", NOW))
    assert b"a" not in durable.held
    assert durable.held[b"b"].head.deleted
    assert all(found == durable.held for found in durable.after_power_failures())


def test_readers_see_an_append_whose_client_went_away(store: Store) -> None:
    """Another server left the tail of its readers behind the durable bytes until the next append."""
    clock = FakeClock()
    scheduler = FakeScheduler(clock)
    with store.machine.running(store.tape) as storage:
        engine = store.machine.start_engine(storage, scheduler, clock, Limits())
        engine.execute(Create(b"a", clock.now(), engine.new_incarnation(), TEXT, b"abc"))
        scheduler.settle()
        store.machine.commits.run()
        scheduler.take_from_thread()
        assert engine.readers.find(b"a", clock.now()).committed.tail == 3


def test_recovery_holds_after_every_start_as_after_the_first(durable: Store) -> None:
    """In another server an assertion of the recovery failed after the second start."""
    chance = Random(1)
    with durable.machine.running(durable.tape) as storage:
        durable.commit(storage, create(b"a", 1))
    for start in range(10):
        crash = durable.tape.fail_power if start % 2 else durable.tape.kill
        durable.tape = crash(len(durable.tape), chance)
        with durable.machine.running(durable.tape) as storage:
            assert stored_snapshot(storage, NAMES) == durable.held
            if start % 3:
                durable.commit(storage, append(b"a", b"%d" % start * 100))
                durable.machine.jobs.run()
    assert durable.found(durable.tape) == durable.held


def test_a_whole_header_over_bytes_that_were_never_written_is_no_record(store: Store) -> None:
    """Another server checked the header alone."""
    with store.machine.running(store.tape) as storage:
        store.commit(storage, create(b"a", 1))
        before = store.held
        store.commit(storage, append(b"a", b"never written"))
    operations = store.tape.operations
    last_write = max(number for number, each in enumerate(operations) if isinstance(each, Wrote))
    write = operations[last_write]
    assert isinstance(write, Wrote)
    frame = FRAME.size + STREAM.size
    hollow = write.data[:frame] + bytes(len(write.data) - frame)
    assert store.found(Tape(store.tape.base, [*operations[:last_write], replace(write, data=hollow)])) == before
