"""A store is pinned between two groups: all that was answered is in it, and nothing is half on its way."""

import pytest

from everbrook.protocol.errors import Unavailable
from everbrook.storage import Pin, StorageFull
from tests.unit.engine.rig import DelayedRig, Rig


class Taken:
    """What became of a pin: how many changes were durable, and why there is none."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.durable: list[int] = []
        self.errors: list[Exception | None] = []
        rig.engine.pin(self._take)

    def _take(self, _pin: Pin | None, error: Exception | None) -> None:
        self.durable.append(self._rig.engine.durable_change)
        self.errors.append(error)


def test_a_pin_waits_for_the_group_on_its_way_and_no_longer(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    delayed.scheduler.settle()
    delayed.append(b"a", b"x")
    taken = Taken(delayed)
    assert taken.durable == []
    delayed.let_group_arrive()
    assert taken.durable == [1]
    delayed.let_everything_arrive()
    assert taken.durable == [1]


def test_a_pin_of_a_storage_that_is_at_rest_does_not_wait(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    delayed.let_everything_arrive()
    assert Taken(delayed).durable == [1]


def test_a_pin_waits_for_no_group_that_there_was_no_room_for(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    taken = Taken(delayed)
    delayed.let_group_arrive(StorageFull("full"))
    assert taken.errors == [None]


@pytest.mark.parametrize("before", [True, False])
def test_a_storage_that_failed_is_not_pinned(delayed: DelayedRig, *, before: bool) -> None:
    delayed.create(b"a")
    early = [Taken(delayed)] if before else []
    delayed.let_group_arrive(OSError("the disk is gone"))
    (taken,) = early or [Taken(delayed)]
    assert isinstance(taken.errors[0], Unavailable)
