"""What a run of kills came to for one query, and whether that is what it had to come to."""

from collections import Counter
from dataclasses import dataclass, field

from soak.ledger import PromiseBroken
from soak.spark.cases import FEW, Case
from soak.spark.journal import APPENDED, BY_TASKS, KNOWN, ON_DRIVER, TASK, WROTE_BY_TASKS, WROTE_HERE
from soak.spark.verdict import Compared

_PATHS = (ON_DRIVER, BY_TASKS, TASK, WROTE_HERE, WROTE_BY_TASKS, APPENDED, KNOWN)
BESIDE = "beside"


@dataclass
class Outlived:
    """What a query has come through, and what came out of it."""

    sent: int = 0
    compared: Compared = field(default_factory=Compared)
    kills: Counter[str] = field(default_factory=Counter)
    """Kills in mid-batch, by their moments; `beside` if the moment was that of another query."""
    missed: int = 0
    """Kills that fell between two batches."""
    server_kills: int = 0
    server_kills_hit: int = 0
    gave_up: int = 0
    """Runs that ended by themselves, as the server was killed or the machine had too much to do."""
    batches: int = 0
    paths: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        """Say it in a few lines."""
        moments = ", ".join(f"{name} {count}" for name, count in sorted(self.kills.items()))
        paths = ", ".join(f"{name} {self.paths[name]:,}" for name in _PATHS if self.paths[name])
        return (
            f"{self.sent:,} messages in, {self.compared.messages:,} out: {self.compared}; "
            f"{self.kills.total()} kills of the driver in mid-batch ({moments}), {self.missed} between batches, "
            f"{self.server_kills} of the server, {self.server_kills_hit} of them in mid-batch; "
            f"{self.gave_up} runs gave up; {self.batches:,} batches: {paths}"
        )

    @property
    def aimed(self) -> int:
        """How many kills came at a moment of this very query."""
        return self.kills.total() - self.kills[BESIDE]


def require_held(case: Case, outlived: Outlived) -> None:
    """See that everything came out, and that it went the ways which it should go."""
    if not outlived.compared.whole:
        raise PromiseBroken(f"{case.name}: {outlived.compared}")
    if outlived.batches < outlived.kills.total():
        raise PromiseBroken(
            f"{case.name}: only {outlived.batches} batches were done: the soak has not shown what it is for"
        )
    missing = sorted(path for path in _expected(case) if not outlived.paths[path])
    if missing:
        raise PromiseBroken(f"{case.name}: nothing was {', '.join(missing)}: the soak has not shown what it is for")
    if case.by_tasks and outlived.paths[ON_DRIVER]:
        raise PromiseBroken(f"{case.name}: {outlived.paths[ON_DRIVER]} batches were read on the driver")


def _expected(case: Case) -> set[str]:
    large = case.source != FEW
    expected = {BY_TASKS, TASK} if case.by_tasks or large else set()
    expected |= set() if case.by_tasks else {ON_DRIVER}
    return expected | ({WROTE_HERE} | ({WROTE_BY_TASKS} if large else set()) if case.helper else set())


def require_found_out(case: Case, outlived: Outlived) -> None:
    """See that a control has done the damage that its flaw does, and that it was seen."""
    if not outlived.compared.damage[case.finding]:
        raise PromiseBroken(f"the control {case.name!r} was not found out: {outlived.compared}")
