"""The turns of a case: in every round each server is started, measured and stopped while no other one runs."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import sleep

from bench.load import Case
from bench.peers.servers import Group
from bench.processes import StartFailed, resident_bytes
from bench.rounds import IDLE_SECS, RoundFailed, take_turn
from bench.subjects import Subject
from bench.summary import Comparison, Figures, Sample, compare, summarise

# A server is new in every turn, so it is given longer than one that runs throughout: compilers have to warm up too.
_WARM_UP_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Standing:
    """How the servers of a group did in one case. Those that failed have no figures, but the reason."""

    group: str
    case: str
    title: str
    figures: list[Figures]
    comparisons: list[Comparison]
    failures: dict[str, str]


@dataclass(slots=True)
class Turns:
    """What the rounds of one case showed, in order."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    idle_rss_mb: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def take_all_turns(case: Case, servers: Sequence[Subject], rounds: int, seconds: float) -> Turns:
    """Measure one server after the other, round by round; one that failed takes no further turns in this case."""
    turns = Turns({server.name: [] for server in servers})
    for number in range(rounds):
        first = number % max(1, len(servers))  # nobody always follows the same neighbour
        for server in (*servers[first:], *servers[:first]):
            if server.name in turns.failures:
                continue
            try:
                _take_turn(case, server, number, seconds, turns)
            except (RoundFailed, StartFailed) as error:
                turns.failures[server.name] = str(error)
    return turns


def _take_turn(case: Case, server: Subject, number: int, seconds: float, turns: Turns) -> None:
    os.sync()  # what the one before has written is not written back at the cost of this one
    with server.start() as process:
        sleep(IDLE_SECS)
        turns.idle_rss_mb[server.name] = resident_bytes(process.pid) / 1e6
        turns.samples[server.name].append(take_turn(case, server, process, number, seconds, _WARM_UP_SHARE))


def standing_of(group: Group, case: Case, turns: Turns) -> Standing:
    """Compare the first server of the group with each of the others, within the rounds."""
    complete = {name: samples for name, samples in turns.samples.items() if samples and name not in turns.failures}
    ours = complete.get(group.servers[0].name, [])
    return Standing(
        group=group.name,
        case=case.name,
        title=case.title,
        figures=[summarise(samples) for samples in complete.values()],
        comparisons=[compare(ours, theirs) for theirs in complete.values() if ours and theirs is not ours],
        failures=turns.failures,
    )
