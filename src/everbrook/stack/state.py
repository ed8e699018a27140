"""How a part is doing, and whom that is told to."""

from collections.abc import Callable
from enum import StrEnum

from everbrook.stack.parts import Part


class State(StrEnum):
    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    FAILING = "failing"  # it runs, and some of what it is to do has failed for good
    RESTARTING = "restarting"
    STOPPING = "stopping"
    STOPPED = "stopped"


UP = frozenset({State.READY, State.FAILING})

# The part, its new state, and the reason where there is one.
Report = Callable[[Part, State, str], None]
