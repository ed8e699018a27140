"""The controls: which rule is broken, and the damage that has to be found out, and where."""

from dataclasses import dataclass

from soak.spark.cases import LOST, TWICE

POSITIONS_FORGOTTEN, CONFIRMED_ON_RECEIPT = "positions-forgotten", "confirmed-on-receipt"
ALL = "all"
HELD = "held"
"""The line of the journal that says: a kill now does damage."""
CHANGES, EVENTS, STATES, TABLES = "changes", "events", "states", "tables"
"""What is compared: changes in streams, events in a table, current states in a table, and tables by their streams."""


@dataclass(frozen=True, slots=True)
class Control:
    """A rule that is broken, and what has to be seen of it."""

    flaw: str
    direction: str
    finding: str


CONTROLS = (
    Control(POSITIONS_FORGOTTEN, EVENTS, TWICE),
    Control(CONFIRMED_ON_RECEIPT, CHANGES, LOST),
)
