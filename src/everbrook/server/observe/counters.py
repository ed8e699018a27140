"""Counters that any part of the server may add to, by name and one label. The catalogue says which there are.

Each begins at zero, so that the first event is seen as one: a series that begins with it has no rise.
"""

from msgspec import Struct

from everbrook.server.methods import OPERATIONS

BACKGROUND = "background"
"""What the server does by itself."""


class Counted(Struct, frozen=True):
    """What is counted: what its label is, the words that it may have, and what it means."""

    label: str
    words: tuple[str, ...]
    meaning: str


COUNTED = {
    "slow_ended": Counted(
        "kind",
        ("sender", "reader", "dropped_for_room"),
        "Connections that were closed because the client was too slow, by kind.",
    ),
    "connections_refused": Counted(
        "reason", ("unavailable", "too_many_requests"), "Connections that were refused, by reason."
    ),
    "long_turns": Counted(
        "operation",
        (*OPERATIONS, BACKGROUND),
        "Turns of the event loop with more than 50 ms of work, by operation; the log names callbacks.",
    ),
    "reloads": Counted("outcome", ("ok", "failed"), "Reloads of certificates, keys and policy, by outcome."),
}
"""What may be counted, by name."""


class Counters:
    """Numbers by name and label."""

    def __init__(self) -> None:
        self._counts = {name: dict.fromkeys(counted.words, 0) for name, counted in COUNTED.items()}

    def add(self, name: str, label: str, count: int = 1) -> None:
        """Count something. A name or label that is not in the table is a `KeyError`: nothing is that a client sent."""
        self._counts[name][label] += count

    def of(self, name: str) -> dict[str, int]:
        """Give what was counted under a name, by label."""
        return dict(self._counts[name])
