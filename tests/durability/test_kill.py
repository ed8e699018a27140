"""A real server under load is killed without warning: every acknowledged append is there exactly once."""

from pathlib import Path

import pytest

from soak.kill import soak_kills
from tests.durability.modes import SURVIVING


@pytest.mark.parametrize("mode", SURVIVING)
def test_what_was_acknowledged_survives_kills_exactly_once(mode: str, tmp_path: Path) -> None:
    survived = soak_kills(mode, tmp_path / "store", kills=3, seed=1, max_secs=60)

    assert survived.kills == 3
    assert survived.messages > 50
