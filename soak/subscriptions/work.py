"""What workers of subscriptions share, and what one does about a wake: it reads, acks, forgets or comes late."""

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from soak.client import Client
from soak.ledger import PromiseBroken
from soak.subscriptions.ledger import Cursors, Grant, Pending
from soak.subscriptions.moments import Moments
from soak.subscriptions.streams import read_messages

LEASE_TTL_MS = 1_000
_LATE_SECS = 1.25
_REFUSED_CODES = {"FENCED", "INVALID_ACK"}
_WAYS = ("done",) * 5 + ("steps",) * 5 + ("early", "fail", "forget", "late", "release")
_GENTLE_WAYS = ("done", "steps")


@dataclass
class Subscriber:
    """A subscription with the knowledge of its workers."""

    id: str
    root: str
    config: Mapping[str, Any]
    covered: tuple[str, ...]
    cursors: Cursors

    @property
    def url(self) -> str:
        """Where it is created, read and reported to."""
        return f"{self.root}/__ds/subscriptions/{self.id}"

    @property
    def pull(self) -> bool:
        """Whether workers come for its wakes."""
        return bool(self.config["type"] == "pull-wake")

    def covers(self, path: str) -> bool:
        """Tell whether it must be woken by a stream."""
        return path.startswith(self.covered)

    def read_cursors(self, client: Client) -> dict[str, int]:
        """Ask the server how far it is."""
        described = json.loads(client.expect({200}, "GET", self.url).body)
        return {link["path"]: int(link["acked_offset"]) for link in described["streams"]}


@dataclass
class Workplace:
    """What all workers share."""

    port: int
    moments: Moments
    random: Random
    stop: threading.Event = field(default_factory=threading.Event)
    gentle: bool = False
    keys: Mapping[str, object] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)

    def way(self) -> str:
        """Draw how to deal with a wake."""
        return self.random.choice(_GENTLE_WAYS if self.gentle else _WAYS)

    def fail(self, error: Exception) -> None:
        """Keep an error for the thread that waits."""
        self.failures.append(error)


class Work:
    """What one worker does about one wake."""

    def __init__(self, place: Workplace, subscriber: Subscriber, grant: Grant, told: list[Pending]) -> None:
        self._place, self._subscriber, self._grant, self._told = place, subscriber, grant, told
        self._cursors = subscriber.cursors
        self._client = Client(place.port)
        self.ends: dict[str, list[int]] = {}

    def close(self) -> None:
        """Let the connection go."""
        self._client.close()

    def read(self) -> None:
        """Read what the wake told of."""
        for pending in self._told:
            ends = self._read(pending) if self._subscriber.covers(pending.path) else [pending.tail]
            self._cursors.read(pending.path, ends)
            self.ends[pending.path] = ends

    def _read(self, pending: Pending) -> list[int]:
        """Read a stream, and give where its messages end: the server must not have told of anything else."""
        found = read_messages(self._client, f"{self._subscriber.root}/{pending.path}", pending.acked)
        ends = [each.end for each in found if each.end is not None]
        if pending.acked >= pending.tail:
            # It is told of again, and a callback that came between has acknowledged it.
            return [pending.acked]
        if pending.tail not in ends:
            raise PromiseBroken(f"{self._subscriber.id} was told of {pending}, and no message ends there: {ends}")
        return ends

    def report(self, acks: Mapping[str, int], *, done: bool, late: bool = False) -> None:
        """Send acks, and see that they are taken, or refused for a reason there can be."""
        moment = "ack" if self._subscriber.pull else "callback"
        body = {
            "wake_id": self._grant.wake_id,
            "generation": self._grant.generation,
            "acks": [{"stream": path, "offset": f"{offset:016d}"} for path, offset in acks.items()],
            "done": done,
        }
        self._cursors.attempt(acks)
        if not done:
            self._cursors.extend(self._grant.generation)
        answer = self._post(moment, body)
        if answer == "" and late and not self._cursors.extended(self._grant.generation):
            raise PromiseBroken(f"{self._subscriber.id} accepted {body} after its lease had run out")
        if answer == "":
            self._cursors.confirm(self._grant, acks, done=done)

    def release(self) -> None:
        """Give the wake back."""
        if self._post("release", {"wake_id": self._grant.wake_id, "generation": self._grant.generation}) == "":
            self._cursors.confirm(self._grant, {}, done=True)

    def _post(self, what: str, body: Mapping[str, object]) -> str:
        """Give the code of the refusal, or none."""
        self._place.moments.reach(what)
        answer = self._client.request(
            "POST",
            f"{self._subscriber.url}/{what}",
            json.dumps(body).encode(),
            Authorization=f"Bearer {self._grant.token}",
        )
        if answer.status in {200, 204}:
            return ""
        code = str(json.loads(answer.body)["error"]["code"])
        if code not in _REFUSED_CODES:
            raise PromiseBroken(f"{what} of {self._subscriber.id} was answered with {answer.status}: {answer.body!r}")
        return code

    def attempt_tails(self) -> None:
        """Note the acks that the server makes of a wake that is done at once."""
        self._cursors.attempt({pending.path: pending.tail for pending in self._told})

    def in_steps(self) -> None:
        """Ack a part as a heartbeat, then everything that was read."""
        self.report({path: self._place.random.choice(ends) for path, ends in self.ends.items()}, done=False)
        self.report({path: ends[-1] for path, ends in self.ends.items()}, done=True)

    def too_late(self) -> None:
        """Ack when the lease has run out."""
        time.sleep(_LATE_SECS)
        self.report({path: ends[-1] for path, ends in self.ends.items()}, done=True, late=True)
