"""After any crash everything acknowledged is there, nothing half-written is, and the store goes on."""

import pytest

from tests.crash.simulation.modes import MODES
from tests.crash.simulation.replay import POINTS_PER_SEED, Plan, replay


@pytest.mark.parametrize("seed", range(7))
@pytest.mark.parametrize("mode", MODES)
def test_a_storage_keeps_its_promises_through_generations_of_crashes(mode: str, seed: int) -> None:
    assert len(list(replay(Plan(mode, seed)))) == POINTS_PER_SEED


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", MODES)
def test_an_engine_keeps_its_promises_through_generations_of_crashes(mode: str, seed: int) -> None:
    assert len(list(replay(Plan(mode, seed, "engine")))) == POINTS_PER_SEED


def test_a_point_replays_by_itself() -> None:
    """Only the crashes that lead to it are gone through again."""
    assert list(replay(Plan("acid", 5, only=30))) == [11, 23, 30]
