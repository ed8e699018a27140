"""Waiting for restarts: two images of a server have to start, which takes a while on a machine that is busy."""

import time
from collections.abc import Callable

import pytest

PATIENCE_SECS = 60.0


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients wait through a restart."""
    monkeypatch.setattr("tests.server.wire.TIMEOUT_SECS", PATIENCE_SECS)


def awaited(claim: Callable[[], object]) -> bool:
    """Whether a claim becomes true in good time."""
    deadline = time.monotonic() + PATIENCE_SECS
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True
