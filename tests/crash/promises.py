"""Promises: every state that a store has been on its way to, and how far it was said to have come, and when.

After a crash a store must be in one of these states, and not in one before the last acknowledged. Where changes are
ordered within a stream only, each stream must be.
"""

from msgspec.structs import replace

from everbrook.protocol import Change, bucket_of, bucket_record
from tests.crash.modes import Mode
from tests.crash.snapshot import Snapshot, StreamState


class Violation(AssertionError):
    """A promise was broken."""


class Promises:
    """What a store may hold, in the order in which it came to it."""

    def __init__(self, mode: Mode, begin: Snapshot) -> None:
        """Begin with a state that is on the disk for certain."""
        self._mode = mode
        self._history = [begin]
        self._acknowledged = [(0, 0)]
        self._joint: dict[int, list[bytes]] = {}

    @property
    def last(self) -> int:
        """The number of the newest state."""
        return len(self._history) - 1

    def state(self, number: int) -> Snapshot:
        return self._history[number]

    def expect(self, snapshot: Snapshot, change: Change = ()) -> int:
        """Add the state after one more change. Gives its number."""
        self._history.append(snapshot)
        if len(change) > 1:
            self._joint[self.last] = [edit.head.identity.name for edit in change]
        return self.last

    def acknowledge(self, number: int, at: int) -> None:
        """Note that a state was said to be durable when the tape was `at` operations long."""
        self._acknowledged.append((at, number))

    def forget_after(self, at: int) -> None:
        """Take back the acknowledgements that a crash prevented."""
        self._acknowledged = [(when, number) for when, number in self._acknowledged if when <= at]

    def due(self, at: int) -> int:
        """Give the state that must not be lost by a crash at this length of the tape."""
        return max(number for when, number in self._acknowledged if when <= at)

    def judge_readable(self, found: Snapshot) -> None:
        """Find each stream in a state that it once had: how much is left was not promised, only that it is whole."""
        for name, state in found.items():
            if not any(_alike(self.state(number).get(name), state) for number in range(len(self._history))):
                raise Violation(f"{name!r} is in no state that it ever had: {self._describe(state)}")

    def judge(self, found: Snapshot, due: int) -> None:
        """Find the state among those that are allowed."""
        if self._mode.atomic:
            if found not in self._history[due:]:
                raise Violation(f"this is no state from change {due} to {self.last}: {self._difference(found, due)}")
        else:
            names = {name for state in self._history for name in state}
            places = {name: self._judge_stream(name, found.get(name), due) for name in names}
            for number, together in self._joint.items():
                _judge_joint(number, {name: places[name] for name in together if name in places})
        for name, state in found.items():
            _judge_forks(name, state, found)
            _judge_bucket(name, found)

    def _judge_stream(self, name: bytes, found: StreamState | None, due: int) -> list[int]:
        """Find a stream in a state that is allowed. Gives the numbers of all that look like it."""
        alone = _alone(found)
        places = [number for number in range(due, len(self._history)) if _alone(self.state(number).get(name)) == alone]
        if not places:
            raise Violation(f"{name!r} is in no state that it had since change {due}: {self._describe(found)}")
        return places

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


def _alone(state: StreamState | None) -> object:
    """Give what belongs to a stream by itself: its forks are other streams."""
    if state is None:
        return None
    return state.head, state.producers, state.content, state.messages, state.times, state.appends


def _alike(state: StreamState | None, found: StreamState) -> bool:
    """Compare states that a power failure may have left of a store that does not promise to outlive it.

    Its source may be another than a fork was made of. And which producer closed a stream without a byte is lost if
    that is all that is, and a joint change is done again.
    """
    if state and found.head.closed:
        state = replace(state, producers=found.producers)
    return state is not None and _alone(_own(state)) == _alone(_own(found))


def _own(state: StreamState) -> StreamState:
    """Leave away what a fork inherited."""
    head, messages = state.head, state.messages
    first = max(head.kept.earliest, head.identity.first_own_offset)
    content, inherited = state.content[first - head.kept.earliest :], sum(end <= first for end in messages)
    appends = tuple(end for end in state.appends if end > first)
    return replace(
        state, content=content, messages=messages[inherited:], times=state.times[inherited:], appends=appends
    )


def _judge_joint(number: int, places: dict[bytes, list[int]]) -> None:
    """A change over several streams is there for all of them, or for none."""
    there = all(any(place >= number for place in each) for each in places.values())
    if not there and not all(any(place < number for place in each) for each in places.values()):
        raise Violation(f"change {number} is there for some of {sorted(places)} only")


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
