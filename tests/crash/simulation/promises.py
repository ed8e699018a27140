"""Promises: every state that a store has been on its way to, and how far it was said to have come, and when.

After a crash a store must be in one of these states, and not in one before the last acknowledged. What was acknowledged
in a mode that does not sync outlives the process. If the power fails, a checkpoint is the last that must not be lost.
"""

from collections.abc import Sequence

from msgspec import Struct

from everbrook.protocol import bucket_of, bucket_record
from tests.crash.simulation.operations import Committed, Operation
from tests.crash.simulation.snapshot import Snapshot, StreamState


class Violation(AssertionError):
    """A promise was broken."""


class Acknowledged(Struct, frozen=True):
    """A state was said to be stored when the tape was `at` operations long."""

    at: int
    number: int
    safe: bool
    """Whether it outlives the machine, and not only the process."""


class Promises:
    """What a store may hold, in the order in which it came to it."""

    def __init__(self, begin: Snapshot) -> None:
        """Begin with a state that is on the disk for certain."""
        self._history = [begin]
        self._acknowledged = [Acknowledged(0, 0, safe=True)]
        self._journaled: dict[int, int] = {}
        self._sealed: list[tuple[int, int]] = []
        self.safe = True
        """Whether what is acknowledged now outlives the machine."""

    @property
    def last(self) -> int:
        """The number of the newest state."""
        return len(self._history) - 1

    def state(self, number: int) -> Snapshot:
        return self._history[number]

    def expect(self, snapshot: Snapshot) -> int:
        """Add the state after one more change. Gives its number."""
        self._history.append(snapshot)
        return self.last

    def journal(self, change: int, number: int) -> None:
        """Note which state there is after a change, which is known by its number in the journal."""
        self._journaled[change] = number

    def seal(self, change: int, at: int) -> None:
        """Note that a change in the journal is proven: if it can't be read any more, somebody has to be told."""
        self._sealed.append((at, change))

    def proven(self, at: int) -> int:
        """Give the last change that is proven at this length of the tape."""
        return max((change for when, change in self._sealed if when <= at), default=0)

    def acknowledge(self, number: int, at: int) -> None:
        """Note that a state was said to be stored when the tape was `at` operations long."""
        self._acknowledged.append(Acknowledged(at, number, self.safe))

    def forget_after(self, at: int) -> None:
        """Take back the acknowledgements that a crash prevented."""
        self._acknowledged = [each for each in self._acknowledged if each.at <= at]
        self._sealed = [each for each in self._sealed if each[0] <= at]

    def due(self, at: int) -> int:
        """Give the state that must not be lost if the process is killed at this length of the tape."""
        return max(each.number for each in self._acknowledged if each.at <= at)

    def due_after_power_failure(self, at: int, operations: Sequence[Operation]) -> int:
        """Give the state that must not be lost if the power fails: one that was synced, or in a checkpoint."""
        synced = max(each.number for each in self._acknowledged if each.at <= at and each.safe)
        commits = [each for each in operations[:at] if isinstance(each, Committed) and each.synced]
        return max([synced, *(self._journaled.get(each.applied, 0) for each in commits)])

    def judge(self, found: Snapshot, due: int) -> None:
        """Find the state among those that are allowed."""
        if found not in self._history[due:]:
            raise Violation(f"this is no state from change {due} to {self.last}: {self._difference(found, due)}")
        for name, state in found.items():
            _judge_forks(name, state, found)
            _judge_bucket(name, found)

    def _difference(self, found: Snapshot, due: int) -> str:
        """Describe how what was found differs from the allowed state that is nearest to it."""
        names = {*found, *(name for state in self._history[due:] for name in state)}

        def differing(state: Snapshot) -> list[bytes]:
            return sorted(name for name in names if state.get(name) != found.get(name))

        nearest = min(self._history[due:], key=lambda state: len(differing(state)))
        return "; ".join(
            f"{name[:10]!r} is {self._describe(found.get(name))}, not {self._describe(nearest.get(name))}"
            for name in differing(nearest)
        )

    def _describe(self, state: StreamState | None) -> str:
        if state is None:
            return "absent"
        head = state.head
        return (
            f"[incarnation {head.identity.incarnation} tail {head.tail} closed {head.closed} deleted {head.deleted} "
            f"seq {head.stream_seq!r} producers {sorted(state.producers.values(), key=str)} kept {head.kept} "
            f"holds {len(state.content)} bytes hash {hash(state.content):x} messages {state.messages} "
            f"appends {state.appends} forks {state.fork_count}]"
        )


def _judge_forks(name: bytes, state: StreamState, found: Snapshot) -> None:
    forks = [other.head.identity.fork for other in found.values()]
    number = state.head.identity.incarnation
    count = sum(bool(fork and fork.source_incarnation == number) for fork in forks)
    if count != state.fork_count:
        raise Violation(f"{name!r} is said to have {state.fork_count} forks and has {count}")
    if state.head.deleted and not count:
        raise Violation(f"{name!r} was deleted, and nothing that is left will ever clear it away")
    fork = state.head.identity.fork
    if fork:
        source = found.get(fork.source)
        if source is None or source.head.identity.incarnation != fork.source_incarnation:
            raise Violation(f"{name!r} has lost its source {fork.source!r}")


def _judge_bucket(name: bytes, found: Snapshot) -> None:
    bucket_id = bucket_of(name)
    if bucket_id is not None and bucket_record(bucket_id) not in found:
        raise Violation(f"{name!r} is in a bucket that is not there")
