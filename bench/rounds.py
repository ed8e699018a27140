"""The rounds of a case: both servers run throughout and are loaded in turn, so a drift of the machine hits both."""

from dataclasses import dataclass, field
from time import sleep

from bench.channel import LoadFailed
from bench.load import Case
from bench.measure import take_sample
from bench.processes import ServerProcess, resident_bytes
from bench.streams import SetupFailed
from bench.subjects import Subject
from bench.summary import Sample

_IDLE_SECS = 0.5


class RoundFailed(Exception):
    """A server did not do what it was asked; says which, under what, and what it printed."""


@dataclass(slots=True)
class Turns:
    """What the rounds of one case showed, in order."""

    idle_rss_mb: dict[str, float] = field(default_factory=dict)
    ours: list[Sample] = field(default_factory=list)
    reference: list[Sample] = field(default_factory=list)


def take_turns(case: Case, subject: Subject, reference: Subject, rounds: int, seconds: float) -> Turns:
    """Start both servers afresh and load one after the other, round by round.

    A subject that is a reference itself meets a second copy of itself: its ratios show the noise of the machine.
    """
    turns = Turns()
    with subject.start() as our_server, reference.start() as reference_server:
        sleep(_IDLE_SECS)
        turns.idle_rss_mb[subject.name] = resident_bytes(our_server.pid) / 1e6
        turns.idle_rss_mb[reference.name] = resident_bytes(reference_server.pid) / 1e6
        for number in range(rounds):
            turns.ours.append(_take_turn(case, subject, our_server, number, seconds))
            turns.reference.append(_take_turn(case, reference, reference_server, number, seconds))
    return turns


def _take_turn(case: Case, subject: Subject, server: ServerProcess, number: int, seconds: float) -> Sample:
    try:
        return take_sample(case, subject.name, server, number, seconds)
    except (LoadFailed, SetupFailed, OSError) as error:
        reason = str(error) or type(error).__name__
        raise RoundFailed(f"{case.name} on {subject.name}: {reason}\n{server.output()}") from error
