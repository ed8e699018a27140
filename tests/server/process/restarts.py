"""Waiting for restarts."""

from collections.abc import Callable

from tests.kit.server_process import PATIENCE_SECS
from tests.kit.server_thread import eventually


def awaited(claim: Callable[[], object]) -> bool:
    """Whether a claim becomes true while two images of a server start."""
    return eventually(claim, PATIENCE_SECS)
