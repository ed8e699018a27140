"""A real server under load is killed without warning: every acknowledged append is there exactly once."""

import sys
from pathlib import Path

import pytest

from soak.client import Refused
from soak.kill import soak_kills
from soak.ledger import PromiseBroken
from tests.crash.durability import forgetful
from tests.crash.durability.synced_modes import SURVIVING


@pytest.mark.parametrize("mode", SURVIVING)
def test_what_was_acknowledged_survives_kills_exactly_once(mode: str, tmp_path: Path) -> None:
    survived = soak_kills(mode, tmp_path / "store", kills=3, seed=1, max_secs=60)

    assert survived.kills == 3
    assert survived.messages > 50


@pytest.mark.parametrize("bug", forgetful.BUGS)
def test_a_server_that_forgets_is_found_out(bug: str, tmp_path: Path) -> None:
    under = (sys.executable, str(Path(forgetful.__file__)), bug)

    with pytest.raises((PromiseBroken, Refused)):
        soak_kills("acid", tmp_path / "store", kills=5, seed=1, max_secs=60, under=under)
