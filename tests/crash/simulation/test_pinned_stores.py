"""A pin holds everything that was acknowledged, also if a checkpoint takes the journal into the base meanwhile."""

from collections.abc import Callable
from pathlib import Path

import pytest

from everbrook.storage import Pin
from everbrook.storage.journal import Journal
from everbrook.storage.pin import PinnedBase, StorePin
from tests.crash.simulation.image import Image
from tests.crash.simulation.modes import DATA_FOLDER, MODES
from tests.crash.simulation.snapshot import Snapshot
from tests.crash.simulation.store import Store, append, create
from tests.crash.simulation.tape import Tape

MOMENTS = ("before the base is pinned", "after the base is pinned")


def copied(pin: Pin) -> Tape:
    """Give a machine that has only what a pin holds."""
    folders = {
        Path(DATA_FOLDER) / parent for folder in pin.folders() for parent in (Path(folder), *Path(folder).parents)
    }
    files = {
        Path(DATA_FOLDER) / file.name: pin.read(file.name, 0, file.size)
        for folder in pin.folders()
        for file in pin.files(folder)
    }
    return Tape(Image(tuple(sorted(folders)), files))


def copied_during_a_checkpoint(mode: str, moment: str, patch: pytest.MonkeyPatch) -> Snapshot:
    """Pin a store while a checkpoint is made at some moment, and open a copy of what is pinned."""
    store = Store(mode)
    really_pin: Callable[..., None] = PinnedBase.__init__

    def pin(*args: object) -> None:
        if moment == MOMENTS[0]:
            store.machine.jobs.run()
        really_pin(*args)
        store.machine.jobs.run()

    with store.machine.running(store.tape) as storage:
        store.commit(storage, create(b"a", 1), append(b"a", b"x" * 1000), append(b"a", b"y" * 100))
        patch.setattr(PinnedBase, "__init__", pin)
        held = storage.pin()
        store.commit(storage, append(b"a", b"after"))
        left = copied(held)
        held.release()
    return store.found(left)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("mode", MODES)
def test_a_copy_has_what_was_acknowledged(mode: str, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = copied_during_a_checkpoint(mode, moment, monkeypatch)
    assert found[b"a"].content == b"abc" + b"x" * 1000 + b"y" * 100


@pytest.mark.parametrize("mode", MODES)
def test_a_journal_that_is_pinned_after_the_base_is_noticed(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deliberate bug, to see that the test above can fail."""
    really_open = StorePin._open_journal
    opened: list[StorePin] = []

    def open_journal(pin: StorePin, journal: Journal) -> None:
        if pin in opened:
            really_open(pin, journal)
        opened.append(pin)

    monkeypatch.setattr(StorePin, "_open_journal", open_journal)
    found = copied_during_a_checkpoint(mode, MOMENTS[1], monkeypatch)
    assert b"a" not in found or len(found[b"a"].content) < 1000
