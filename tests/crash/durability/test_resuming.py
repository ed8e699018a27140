"""Programs that copy a source are killed, and go on where they were. The long form is `python -m soak resuming`."""

from pathlib import Path

import pytest

from soak.ledger import PromiseBroken
from soak.resuming.killing import CARELESS, KINDS, soak_resuming


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_that_is_killed_copies_its_source_exactly_once(tmp_path: Path, kind: str) -> None:
    assert soak_resuming("acid", tmp_path, runs=2, seed=1, kinds=(kind,)).kills >= 2


def test_a_program_that_keeps_its_position_beside_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(PromiseBroken, match="not alike"):
        soak_resuming("acid", tmp_path, runs=10, seed=1, kinds=(CARELESS,))
