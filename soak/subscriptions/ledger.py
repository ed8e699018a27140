"""The ledger of a subscription: what its workers were told, what they read, and what they acknowledged.

A cursor lies between what was acknowledged by an answer and what was ever sent as an ack. A generation has one wake id,
however often the server is killed, and whoever is told of one finds everything that older ones acknowledged.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from soak.ledger import PromiseBroken

BEFORE_FIRST = -1


@dataclass(frozen=True, slots=True)
class Grant:
    """A wake as a worker has it: with this it reports."""

    generation: int
    wake_id: str
    token: str


@dataclass(frozen=True, slots=True)
class Pending:
    """A stream that a wake told of."""

    path: str
    acked: int
    tail: int


def pending_of(wake: Mapping[str, Any]) -> list[Pending]:
    """Give the streams of a wake, as a webhook or a claim tells of them."""
    return [Pending(each["path"], int(each["acked_offset"]), int(each["tail_offset"])) for each in wake["streams"]]


@dataclass
class Tally:
    """How often what happened, over all subscriptions."""

    deliveries: int = 0
    claims: int = 0
    acks: int = 0
    refused: int = 0


@dataclass
class Cursors:
    """What is known of one subscription. Its methods may be called from any thread."""

    id: str
    tally: Tally
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: dict[str, set[int]] = field(default_factory=dict)
    _attempted: dict[str, int] = field(default_factory=dict)
    _confirmed: dict[str, dict[int, int]] = field(default_factory=dict)
    _grants: dict[int, list[Grant]] = field(default_factory=dict)
    _claimed: set[int] = field(default_factory=set)
    _over: set[int] = field(default_factory=set)
    _extended: set[int] = field(default_factory=set)

    def tell(self, grant: Grant, told: Iterable[Pending], *, claimed: bool) -> None:
        """Take a wake in, and hold it against what is known."""
        with self._lock:
            self._check_grant(grant, claimed=claimed)
            for pending in told:
                self._check_told(grant.generation, pending)
            self._grants.setdefault(grant.generation, []).append(grant)
            self.tally.claims += claimed
            self.tally.deliveries += not claimed

    def _check_grant(self, grant: Grant, *, claimed: bool) -> None:
        for other in self._grants.get(grant.generation, ()):
            if other.wake_id != grant.wake_id:
                raise PromiseBroken(
                    f"generation {grant.generation} of {self.id} has two wakes: {other.wake_id} and {grant.wake_id}"
                )
        if claimed and grant.generation in self._claimed:
            raise PromiseBroken(f"generation {grant.generation} of {self.id} was claimed twice")
        if claimed:
            self._claimed.add(grant.generation)

    def _check_told(self, generation: int, pending: Pending) -> None:
        older = {each: offset for each, offset in self._confirmed.get(pending.path, {}).items() if each < generation}
        least = max(older.values(), default=BEFORE_FIRST)
        if pending.acked < least:
            raise PromiseBroken(
                f"generation {generation} of {self.id} tells of {pending}; {least} was acknowledged before"
            )

    def read(self, path: str, ends: Iterable[int]) -> None:
        """Note messages that a worker has seen, by where they end."""
        with self._lock:
            self._seen.setdefault(path, set()).update(ends)

    def attempt(self, acks: Mapping[str, int]) -> None:
        """Note acks that are about to be sent: from here on the cursor may be there."""
        with self._lock:
            for path, offset in acks.items():
                self._attempted[path] = max(offset, self._attempted.get(path, BEFORE_FIRST))

    def extend(self, generation: int) -> None:
        """Note that the lease of a generation may be extended: it is not known any more when that runs out."""
        with self._lock:
            self._extended.add(generation)

    def extended(self, generation: int) -> bool:
        """Tell whether anybody may have extended the lease of a generation."""
        with self._lock:
            return generation in self._extended

    def confirm(self, grant: Grant, acks: Mapping[str, int], *, done: bool) -> None:
        """Note that a report was answered well: no cursor may be before that any more."""
        with self._lock:
            for path, offset in acks.items():
                confirmed = self._confirmed.setdefault(path, {})
                confirmed[grant.generation] = max(offset, confirmed.get(grant.generation, BEFORE_FIRST))
            if done:
                self._over.add(grant.generation)
            self.tally.acks += len(acks)

    def confirmed(self) -> dict[str, int]:
        """Give how far each cursor must be by now."""
        with self._lock:
            return {path: max(offsets.values()) for path, offsets in self._confirmed.items() if offsets}

    def check(self, confirmed: Mapping[str, int], cursors: Mapping[str, int]) -> None:
        """Hold cursors that the server shows against what was confirmed before they were asked for."""
        for path, offset in confirmed.items():
            if cursors.get(path, BEFORE_FIRST) < offset:
                raise PromiseBroken(f"{self.id} had acknowledged {path} at {offset}, and is at {cursors.get(path)}")
        with self._lock:
            for path, offset in cursors.items():
                if offset > max(0, self._attempted.get(path, BEFORE_FIRST)):
                    raise PromiseBroken(f"{self.id} is at {offset} of {path}, and nobody has acknowledged that")

    def check_seen(self, path: str, ends: Iterable[int]) -> int:
        """See that every message of a stream was delivered; tells how many there are."""
        with self._lock:
            there = set(ends)
            missed = sorted(there - self._seen.get(path, set()))
        if missed:
            raise PromiseBroken(f"{self.id} was never told of {len(missed)} messages of {path}: {missed[:5]}")
        return len(there)

    def stale(self, random: Random) -> Grant | None:
        """Give a grant whose time is over, if there is one: its generation was done, or there is a later one."""
        with self._lock:
            newest = max(self._grants, default=0)
            old = [each for each in self._grants if each < newest or each in self._over]
            return random.choice(self._grants[random.choice(old)]) if old else None

    def newest(self) -> Grant | None:
        """Give the latest grant that anybody was given."""
        with self._lock:
            return self._grants[max(self._grants)][-1] if self._grants else None
