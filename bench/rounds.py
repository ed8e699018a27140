"""The rounds of a case: both servers run throughout and are loaded in turn, so a drift of the machine hits both."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from time import sleep

from bench.channel import LoadFailed
from bench.load import Case
from bench.measure import WARM_UP_SHARE, take_sample
from bench.processes import ServerProcess, resident_bytes
from bench.streams import SetupFailed
from bench.subjects import Subject
from bench.summary import Sample

IDLE_SECS = 0.5


class RoundFailed(Exception):
    """A server did not do what it was asked; says which, under what, and what it printed."""


@dataclass(slots=True)
class Turns:
    """What the rounds of one case showed, in order."""

    idle_rss_mb: dict[str, float] = field(default_factory=dict)
    ours: list[Sample] = field(default_factory=list)
    reference: list[Sample] = field(default_factory=list)
    memory: list[Sample] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Contest:
    """Servers that take turns: ours, the one reference they all have, and our memory mode if it is wanted beside."""

    subjects: tuple[Subject, ...]
    reference: Subject
    memory: Subject | None = None

    @property
    def servers(self) -> list[Subject]:
        """Everyone, in the order of the turns.

        A subject that is a reference itself meets a second copy of itself: its ratios show the noise of the machine.
        """
        return [*self.subjects, self.reference, *([self.memory] if self.memory else [])]


def take_turns(case: Case, contest: Contest, rounds: int, seconds: float) -> list[Turns]:
    """Start all servers afresh and load one after the other, round by round. Returns the turns of each subject."""
    servers = contest.servers
    samples: list[list[Sample]] = [[] for _ in servers]
    with ExitStack() as stack:
        running = [stack.enter_context(subject.start()) for subject in servers]
        sleep(IDLE_SECS)
        idle_rss_mb = {
            subject.name: resident_bytes(server.pid) / 1e6 for subject, server in zip(servers, running, strict=True)
        }
        for number in range(rounds):
            for subject, server, taken in zip(servers, running, samples, strict=True):
                taken.append(take_turn(case, subject, server, number, seconds))
    ours, others = samples[: len(contest.subjects)], samples[len(contest.subjects) :]
    memory = others[1] if contest.memory else []
    return [Turns(idle_rss_mb, taken, others[0], memory) for taken in ours]


def take_turn(
    case: Case,
    subject: Subject,
    server: ServerProcess,
    number: int,
    seconds: float,
    warm_up_share: float = WARM_UP_SHARE,
) -> Sample:
    """Load a running server once; what it did wrong is told together with what it printed."""
    try:
        return take_sample(case, subject.name, server, number, seconds, warm_up_share)
    except (LoadFailed, SetupFailed, OSError) as error:
        reason = str(error) or type(error).__name__
        raise RoundFailed(f"{case.name} on {subject.name}: {reason}\n{server.output()}") from error
