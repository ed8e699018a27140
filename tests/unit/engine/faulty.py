"""Callbacks that raise, and who is told that the store takes no more writes."""

from everbrook.protocol.errors import Unavailable
from tests.unit.engine.rig import DelayedRig


class Fault(Exception):
    """A bug."""


def fail(*_: object) -> None:
    raise Fault


def poisoned(rig: DelayedRig) -> list[Unavailable]:
    """Whom the engine has told that its store is poisoned."""
    told: list[Unavailable] = []
    rig.engine.on_failure = told.append
    return told
