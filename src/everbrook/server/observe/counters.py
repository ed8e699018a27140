"""Counters of rare events, by name and one label. Any part of the server may add to them.

Each begins at zero, so that Prometheus sees the first event as an increase: a series that began with 1 would show none.
"""

from msgspec import Struct

from everbrook.server.methods import OPERATIONS

BACKGROUND = "background"
"""The label of work that no request caused."""


class Counted(Struct, frozen=True):
    """A counter: the name of its label, the values that it may have, and what it counts."""

    label: str
    words: tuple[str, ...]
    meaning: str


COUNTED = {
    "slow_ended": Counted(
        "kind",
        ("sender", "reader", "dropped_for_room"),
        "Connections that were ended because the client was too slow, by kind.",
    ),
    "connections_refused": Counted("reason", ("unavailable", "too_many_requests"), "Refused connections, by reason."),
    "long_turns": Counted(
        "operation",
        (*OPERATIONS, BACKGROUND),
        "Turns of the event loop with more than 50 ms of work, by operation. The log names callbacks.",
    ),
    "reloads": Counted("outcome", ("ok", "failed"), "Reloads of certificates, keys and policy, by outcome."),
}


class Counters:
    """The counts, by name and label."""

    def __init__(self) -> None:
        self._counts = {name: dict.fromkeys(counted.words, 0) for name, counted in COUNTED.items()}

    def add(self, name: str, label: str, count: int = 1) -> None:
        """Count an event. An unknown name or label is a `KeyError`: no label may be chosen by a client."""
        self._counts[name][label] += count

    def of(self, name: str) -> dict[str, int]:
        """Return the counts of a name, by label."""
        return dict(self._counts[name])
