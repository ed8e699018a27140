"""Engines to command: one on a storage that is done at once, one on a storage that takes its time."""

from collections.abc import Iterator

import pytest

from tests.unit.engine.rig import DelayedRig, Rig

pytest.register_assert_rewrite(
    "tests.unit.engine.model.commanding",
    "tests.unit.engine.model.cutting",
    "tests.unit.engine.model.reading",
    "tests.unit.engine.model.looking",
    "tests.unit.engine.model.machine",
    "tests.unit.engine.subscriptions.wakes",
)


@pytest.fixture
def rig() -> Rig:
    """An engine over memory."""
    return Rig()


@pytest.fixture
def delayed() -> Iterator[DelayedRig]:
    """An engine over a storage that takes its time."""
    rig = DelayedRig()
    yield rig
    rig.let_everything_arrive()
    rig.engine.close()
