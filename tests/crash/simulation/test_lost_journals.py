"""What a power failure takes of a journal that was not synced stays away, and nothing that was given up comes back."""

import errno
from pathlib import Path
from random import Random

import pytest

from everbrook.protocol.decide import decide
from everbrook.storage import DurableStorage, StorageFull
from tests.crash.simulation.modes import JOURNALS, MODES
from tests.crash.simulation.operations import Removed, Synced, Wrote
from tests.crash.simulation.rot import rotten
from tests.crash.simulation.snapshot import stored_snapshot
from tests.crash.simulation.store import Store, append, create
from tests.crash.simulation.tape import Tape
from tests.crash.simulation.workload import NAMES

SIZE = 6000


@pytest.fixture
def fast() -> Store:
    return Store("file-fast")


def without_write(tape: Tape, size: int) -> Tape:
    """Give what is left if the power fails and only one write, the first that is so large, was not on the disk."""
    place = next(n for n, each in enumerate(tape.operations) if isinstance(each, Wrote) and len(each.data) > size)
    left = Tape(tape.base, tape.operations[:place] + tape.operations[place + 1 :])
    return Tape(left.disk_after(len(left)).everything(), boot=tape.boot + 1)


def test_changes_after_a_lost_one_stay_lost_when_the_store_goes_on() -> None:
    """Several files of the journal have numbers that are given again."""
    fast = Store("file-fast", variant=2)
    with fast.machine.running(fast.tape) as storage:
        fast.commit(storage, create(b"a", 1))
        before = fast.held
        fast.commit(storage, *(append(b"a", b"%d" % number * SIZE) for number in range(3)))
        fast.commit(storage, create(b"b", 2), create(b"c", 3))
    left = without_write(fast.tape, SIZE)
    with fast.machine.running(left) as storage:
        assert stored_snapshot(storage, NAMES) == before
    with fast.machine.running(left) as storage:
        assert (stored_snapshot(storage, NAMES), storage.damages) == (before, [])
        assert [record.number for record in storage._journal.follow(0)] == [1]


@pytest.mark.parametrize("remove", ["a blob", "discarded bytes"])
def test_what_an_older_state_needs_is_removed_only_after_the_journal_is_synced(fast: Store, remove: str) -> None:
    with fast.machine.running(fast.tape) as storage:
        fast.commit(storage, create(b"a", 1), append(b"a", b"x" * SIZE))
        fast.machine.jobs.run()
        fast.publish(storage, b"a", 2, b"old")
        if remove == "a blob":
            fast.publish(storage, b"a", 3, b"new")
    operations = fast.tape.operations
    last_write = max(n for n, each in enumerate(operations) if isinstance(each, Wrote) and each.file == _journal(fast))
    removed = next(n for n in range(last_write, len(operations)) if isinstance(operations[n], Removed))
    assert Synced(_journal(fast)) in operations[last_write:removed]


def _journal(store: Store) -> int:
    """Give the file that the journal is in."""
    numbers = store.tape.disk_after(len(store.tape)).numbers()
    return max((path.name, number) for path, number in numbers.items() if path.name.startswith("journal-"))[1]


@pytest.mark.parametrize("mode", MODES)
def test_what_was_refused_for_want_of_room_does_not_come_back(mode: str) -> None:
    store = Store(mode, variant=2)
    with store.machine.running(store.tape) as storage:
        store.commit(storage, create(b"a", 1))
        refused = [decide(store.streams, append(b"a", each * 100)).change for each in (b"x", b"y")]
        store.machine.disk.room_bytes = 250
        with pytest.raises(StorageFull):
            storage.persist(refused)
    assert all(found.get(b"a") in (None, store.held[b"a"]) for found in store.after_power_failures())


def test_changes_go_to_the_next_file_once_it_has_its_name() -> None:
    """There is no room for the seal at the end of the file before it. What is written there from now on is lost."""
    store = Store("acid", variant=3)
    with store.machine.running(store.tape) as storage:
        store.commit(storage, create(b"a", 1))
        store.machine.disk.room_bytes = JOURNALS[1].first_file_bytes + 10
        store.commit(storage, append(b"a", b"x" * 450), append(b"a", b"y"))
    assert any(isinstance(each, Wrote) and len(each.data) == 10 for each in store.tape.operations), "none was torn"
    assert store.found(store.tape) == store.held


def test_a_name_that_may_be_on_the_disk_is_no_mere_want_of_room(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store("acid", variant=3)

    def fail(_folder: Path) -> None:
        raise OSError(errno.ENOSPC, "no room for the folder")

    with store.machine.running(store.tape) as storage:
        store.commit(storage, create(b"a", 1))
        monkeypatch.setattr(store.machine.disk, "sync_folder", fail)
        with pytest.raises(OSError, match="no room for the folder"):
            store.commit(storage, append(b"a", b"x" * 450))


@pytest.mark.parametrize("mode", ["acid", "file-fast"])
def test_the_last_change_is_proven_also_when_a_checkpoint_waits_for_its_turn(mode: str) -> None:
    store = Store(mode)
    with store.machine.running(store.tape) as storage:
        store.commit(storage, create(b"a", 1), append(b"a", b"x" * SIZE))
        storage.seal()
        last = storage._journal.last
    everything = store.tape.disk_after(len(store.tape)).everything()
    for number in range(20):
        damaged = rotten(everything, range(last, last + 1), Random(number))
        assert damaged
        with store.machine.running(Tape(damaged[0])) as storage:
            assert _is_told(storage, store), damaged[1]


def _is_told(storage: DurableStorage, store: Store) -> bool:
    return bool(storage.damages) or stored_snapshot(storage, NAMES) == store.held
