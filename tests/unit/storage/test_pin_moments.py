"""A pin beside a checkpoint, in every order of their steps: the copy holds what the store held at that moment."""

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from everbrook.storage import ACID, FILE_DURABLE, DurableMode, Pin
from tests.kit.drafts import Draft
from tests.unit.storage.engines import ENGINES, StorageEngine, Store, scratch_folder
from tests.unit.storage.interruption import Stepped
from tests.unit.storage.pinning import Life, reopened

MODES = {"acid-small": ACID, "file-durable-small": FILE_DURABLE}
STEPS_BEFORE = 25
STEPS_AFTER = 40


@contextmanager
def stepped(mode: DurableMode) -> Iterator[tuple[Stepped, Store]]:
    opening = Stepped(mode)
    engine = StorageEngine(opening.open, durable=True)
    with scratch_folder() as folder, Store(engine, Path(folder), reopening=False) as store:
        yield opening, store


def live(life: Life, opening: Stepped, steps: int) -> None:
    """Go on, with a checkpoint after every other step."""
    for _ in range(steps // 2):
        life.live(2)
        opening.background.run()


def pin_beside(name: str, number: int, *, inside: bool, idle: bool = False) -> bool:
    """Make a checkpoint at a step of a pin, or a pin at a step of a checkpoint. False: there are fewer steps.

    The checkpoint takes only a part of what is not in the base yet, or everything if the store is `idle`.
    """
    with stepped(MODES[name]) as (opening, store), scratch_folder() as target:
        life = Life(store, random.Random(11))
        live(life, opening, STEPS_BEFORE)
        stream = Draft(b"last", 1000)
        store.commit((stream.write(bytes(400)),))
        if not idle:
            life.live(STEPS_BEFORE)
        expected = life.model() | {b"last": (0, 400, bytes(400))}
        pins: list[Pin | None] = []
        if inside:
            opening.reading.arm(number, opening.background.run)
            pins.append(store.storage.pin())
            reached = opening.reading.disarm()
        else:
            opening.writing.arm(number, lambda: pins.append(store.storage.pin()))
            opening.background.run()
            reached = opening.writing.disarm()
        if reached:
            live(life, opening, STEPS_AFTER)
            (pin,) = pins
            assert pin is not None
            assert reopened(ENGINES[name], pin, Path(target)) == expected, f"at step {number}"
        return reached


@pytest.mark.parametrize("idle", [False, True], ids=["busy", "idle"])
@pytest.mark.parametrize("name", MODES)
def test_a_checkpoint_at_any_step_of_a_pin_takes_nothing_out_of_it(name: str, *, idle: bool) -> None:
    steps = next(number for number in count() if not pin_beside(name, number, inside=True, idle=idle))
    # The manifest, the files of the journal, a transaction of LMDB and its file: before and after each of them.
    assert steps >= 8


def test_a_pin_at_any_step_of_a_checkpoint_holds_that_moment() -> None:
    steps = next(number for number in count() if not pin_beside("file-durable-small", number, inside=False))
    assert steps >= 8


def test_a_segment_that_a_pin_held_when_the_process_ended_goes_at_the_next_start() -> None:
    with stepped(FILE_DURABLE) as (opening, store), scratch_folder() as copied:
        stream, other = Draft(b"a", 1), Draft(b"b", 2)
        store.commit((stream.write(bytes(1000)),))
        opening.background.run()
        store.storage.pin()
        store.commit((stream.drop(),))
        for _ in range(4):
            store.commit((other.write(bytes(300)),))
            opening.background.run()
        shutil.copytree(store.folder, copied, dirs_exist_ok=True)
        assert list(Path(copied).rglob(f"{1:016x}-*"))
        with Store(ENGINES["file-durable-small"], Path(copied), reopening=False):
            assert not list(Path(copied).rglob(f"{1:016x}-*"))
