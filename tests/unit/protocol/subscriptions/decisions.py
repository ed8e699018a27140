"""Subscriptions decided on without an engine: a view in plain lists, and short ways to command it."""

import msgspec

from everbrook.protocol import Append, Create, Delete, Outcome
from everbrook.protocol.messages import unpack
from everbrook.protocol.subscriptions import Compact, Config, Subscription, Wake
from everbrook.protocol.subscriptions.rules import backfill
from everbrook.protocol.subscriptions.subscription import (
    Claim,
    Deliver,
    Lapse,
    LinkStreams,
    Report,
    Subscribe,
    UnlinkStream,
    Unsubscribe,
    WakeUp,
)
from tests.kit.views import JSON, NOW, TEXT, Streams

ROOT = b"/v1/stream/"
RECORD = b"subscription/v1/stream/s"
LEASE_MS = 30_000
HOOK = Config("webhook", "events/*", (), "https://worker.example/hook")
PULL = Config("pull-wake", "events/*", (), wake_stream="wake")


class Desk(Streams):
    """Streams with one subscription, `s`."""

    def put(self, path: str, *bodies: bytes) -> None:
        """Create a stream below the stream root, and append to it."""
        self.hold(ROOT + path.encode(), *bodies)

    def put_expired(self, path: str) -> None:
        """Create a stream with something in it, whose time has run out."""
        self.hold(ROOT + path.encode(), b"1", ttl_secs=1).touched_at = NOW - 1000

    def add(self, path: str, body: bytes = b"x") -> None:
        """Append to a stream."""
        self.run(Append(ROOT + path.encode(), NOW, TEXT, body))

    def put_again(self, path: str, *bodies: bytes) -> None:
        """Delete a stream and create another one under its name."""
        self.run(Delete(ROOT + path.encode(), NOW))
        self.put(path, *bodies)

    def close(self, path: str) -> None:
        """Close a stream of JSON."""
        self.run(Append(ROOT + path.encode(), NOW, JSON, close=True))

    def put_wake_stream(self) -> None:
        """Create the wake stream."""
        self.run(Create(ROOT + b"wake", NOW, self.next_incarnation(), JSON))

    def told(self) -> list[dict[str, object]]:
        """Read the wake stream."""
        stream = self.kept[ROOT + b"wake"]
        return msgspec.json.decode(unpack(stream.head.identity, stream.stored), type=list[dict[str, object]])

    def subscribe(self, config: Config = HOOK) -> Outcome:
        """Create the subscription, or find it."""
        matched = backfill(config, ROOT, self.living(ROOT, NOW))
        return self.run(Subscribe(RECORD, NOW, self.next_incarnation(), "s", ROOT, "http://here", config, matched))

    def unsubscribe(self) -> Outcome:
        """Delete the subscription."""
        return self.run(Unsubscribe(RECORD, NOW))

    @property
    def it(self) -> Subscription:
        """The subscription."""
        found = self.subscription(RECORD)
        assert found is not None
        return found

    @property
    def wake(self) -> Wake:
        """Its wake."""
        assert self.it.wake is not None
        return self.it.wake

    def acked(self, path: str) -> int:
        """Give how far the work on a stream has come."""
        stream = self.kept[ROOT + path.encode()]
        return self.it.acked(path, stream.head.identity.incarnation)

    def link(self, *paths: str) -> Outcome:
        """Link streams explicitly."""
        return self.run(LinkStreams(RECORD, NOW, paths))

    def unlink(self, path: str) -> Outcome:
        """Remove an explicit link."""
        return self.run(UnlinkStream(RECORD, NOW, path))

    def wake_up(self, *candidates: str, wake_id: str = "w_1", now: int = NOW) -> Outcome:
        """Begin a generation."""
        return self.run(WakeUp(RECORD, now, wake_id, candidates))

    def claim(self, *candidates: str, worker: str = "w1", wake_id: str = "w_2", now: int = NOW) -> Outcome:
        """Take the lease."""
        return self.run(Claim(RECORD, now, wake_id, candidates, worker))

    def report(
        self, *acks: tuple[str, int], done: bool = False, wake_id: str = "w_1", generation: int = 1, now: int = NOW
    ) -> Outcome:
        """Say what was processed."""
        return self.run(Report(RECORD, now, wake_id, generation, acks, done))

    def lapse(self, now: int) -> Outcome:
        """End a wake whose lease has run out."""
        return self.run(Lapse(RECORD, now))

    def deliver(self, *, done: bool = False, retry_at: int | None = None, generation: int = 1) -> Outcome:
        """Note what became of a delivery."""
        return self.run(Deliver(RECORD, NOW, generation, done, retry_at))

    def compact(self) -> Outcome:
        """Let the subscription forget its past."""
        return self.run(Compact(RECORD, NOW))
