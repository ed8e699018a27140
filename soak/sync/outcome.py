"""What a run of kills came to, and whether that is what it had to come to."""

from collections import Counter
from dataclasses import dataclass, field

from soak.ledger import PromiseBroken
from soak.sync.controls import CHANGES, EVENTS, STATES, TABLES, Control
from soak.sync.verdict import Agreement

PIPELINE, WORKER, JVM, SERVER, POSTGRES = "pipeline", "worker", "JVM", "server", "Postgres"
PARTS = (PIPELINE, WORKER, JVM, SERVER, POSTGRES)
LONG_SECS = 150.0
"""From so long a run on every part has to be killed at least once."""


@dataclass
class Outcome:
    """What was killed, what went each way, and whether both sides agree."""

    kills: Counter[str] = field(default_factory=Counter)
    moves: int = 0
    """How often something was seen to arrive both ways before a kill."""
    copies_broken: int = 0
    quiet_secs: float = 0.0
    transactions: Counter[str] = field(default_factory=Counter)
    restarts: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    found: dict[str, Agreement] = field(default_factory=dict)

    def spared(self) -> list[str]:
        """Name the parts that were never killed."""
        return [part for part in PARTS if not self.kills[part]]

    def told_kills(self) -> str:
        """Say how often each part was killed."""
        return ", ".join(f"{part} {count}" for part, count in self.kills.items())

    def __str__(self) -> str:
        """Say it in a few lines."""
        found, done = self.found, self.transactions
        return (
            f"killed: {self.told_kills()}; {self.copies_broken} of it in mid-copy, "
            f"{self.moves} when rows were seen to go both ways; "
            f"jobs restarted {self.restarts['restarting']} and waited {self.restarts['waiting']} times; "
            f"tables to streams: {done['committed']:,} transactions with {done['changes']:,} changes committed, "
            f"{done['rolled back']:,} rolled back, {done['broken off']:,} broken off, "
            f"{found[CHANGES].found:,} messages: {found[CHANGES]}; "
            f"{found[TABLES].found:,} rows by their streams: {found[TABLES]}; "
            f"streams to tables: {self.sent:,} messages, {found[EVENTS].found:,} rows of events: {found[EVENTS]}; "
            f"{found[STATES].found:,} states: {found[STATES]}; quiet after {self.quiet_secs:.0f} s"
        )


def require_held(outcome: Outcome, secs: float) -> None:
    """See that both sides agree, and that it was hard enough to say something."""
    for direction, agreement in outcome.found.items():
        if not agreement.whole:
            raise PromiseBroken(f"{direction}: {agreement}")
        if not agreement.found:
            raise PromiseBroken(f"{direction}: nothing came: the soak has not shown what it is for")
    spared = outcome.spared()
    if spared and secs >= LONG_SECS:
        raise PromiseBroken(f"never killed: {', '.join(spared)}: the soak has not shown what it is for")


def require_found_out(control: Control, outcome: Outcome) -> None:
    """See that a control has done the damage that its flaw does, and that it was seen."""
    agreement = outcome.found[control.direction]
    if not agreement.damage[control.finding]:
        raise PromiseBroken(f"the control {control.flaw!r} was not found out: {control.direction}: {agreement}")
