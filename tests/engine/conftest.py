"""Engines to command: one on a storage that is done at once, one on a storage that takes its time."""

from collections.abc import Iterator

import pytest

from tests.engine.rig import DelayedRig, Rig

pytest.register_assert_rewrite(
    "tests.engine.commanding",
    "tests.engine.cutting",
    "tests.engine.reading",
    "tests.engine.looking",
    "tests.engine.machine",
    "tests.engine.wakes",
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
