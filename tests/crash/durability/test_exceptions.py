"""Exceptions in callbacks of a real server harm nothing else. The long form is `python -m soak exceptions`."""

from pathlib import Path

import pytest

from everbrook.engine import Callback
from soak.exceptions.running import soak_exceptions
from soak.ledger import PromiseBroken

FEW = (Callback.COMMIT, Callback.TIMER, Callback.LOCK, Callback.OVERLOAD, Callback.LIVE, Callback.UPLOAD)


def test_an_exception_in_a_callback_harms_nothing_else(tmp_path: Path) -> None:
    contained = soak_exceptions("acid", tmp_path, seed=1, kinds=FEW)

    assert contained.raised == 2 * len(FEW)
    # Of the steps of the committer only the seal of an idle journal can be tried again.
    assert contained.restarts <= 2
    assert contained.messages > 50


def test_connections_that_fail_to_be_encrypted_harm_no_others(tmp_path: Path) -> None:
    assert soak_exceptions("file-fast", tmp_path, seed=1, encrypted=True).raised == 4


@pytest.mark.parametrize(
    "kind, told",
    [
        (Callback.COMMIT, "nobody could append"),
        (Callback.LOCK, "no other callback of the kind"),
    ],
)
def test_callbacks_without_a_guard_are_found_out(tmp_path: Path, kind: Callback, told: str) -> None:
    with pytest.raises(PromiseBroken, match=told):
        soak_exceptions("acid", tmp_path, seed=1, kinds=(kind,), control=True)
