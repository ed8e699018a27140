"""Subscriptions on an engine whose storage, time and receivers the test holds in its hands.

The storage takes its time, without a thread: a group arrives, or finds no room, when the test says so. A crash leaves
what has arrived, and nothing else.
"""

from dataclasses import dataclass

import msgspec

from everbrook.engine import Engine, EngineTuning, SubscriptionsTuning
from everbrook.engine.limits import Limits
from everbrook.engine.subscriptions.index import record_name
from everbrook.engine.subscriptions.service import Subscriptions, WakeReport
from everbrook.engine.subscriptions.wakes import Delivery
from everbrook.engine.tuning import DEFAULT_TUNING
from everbrook.protocol import STREAM_ROOT
from everbrook.protocol.subscriptions import Config, Link, Subscription, Wake, decode_events, fold
from everbrook.storage import MemoryStorage, StorageFull
from tests.kit.fakes import DelayedStorage
from tests.unit.engine.rig import UNBOUNDED, Rig, durable

HOOK = "https://worker.example/hook"
LEASE_MS = 30_000


@dataclass
class Sent:
    """A wake that was sent to a webhook."""

    subscription: Subscription
    generation: int
    wake: Wake
    at: int


class WakeEvent(msgspec.Struct, forbid_unknown_fields=True):
    """What a pull-wake says in its wake stream (§7.2)."""

    type: str
    subscription_id: str
    stream: str
    generation: int
    ts: int


def name_of(path: str, root: bytes = STREAM_ROOT) -> bytes:
    """Give the name of a stream below a stream root."""
    return root + path.encode()


class SubscribingRig(Rig):
    """An engine with subscriptions. Streams are of text, but for the wake streams."""

    subscriptions: Subscriptions

    def __init__(
        self,
        storage: MemoryStorage | None = None,
        limits: Limits = UNBOUNDED,
        tuning: SubscriptionsTuning = DEFAULT_TUNING.subscriptions,
    ) -> None:
        self.sent: list[Sent] = []
        super().__init__(limits, DelayedStorage() if storage is None else storage, EngineTuning(subscriptions=tuning))

    def start(self) -> Engine:
        engine = super().start()
        self.subscriptions = Subscriptions(engine, self._send)
        return engine

    def _send(self, subscription: Subscription, wake: Wake) -> None:
        self.sent.append(Sent(subscription, subscription.generation, wake, self.clock.now()))

    # Time and storage

    def let_group_arrive(self, error: BaseException | None = None) -> None:
        """Let the next group become durable and visible, or fail."""
        self.scheduler.settle()
        if isinstance(self.storage, DelayedStorage):
            self.storage.verdict = error
        self.commits.run(1)
        self.scheduler.run_from_threads()

    def refuse(self) -> None:
        """Let there be no room for what is on its way."""
        self.scheduler.settle()
        assert self.engine.last_change > self.engine.durable_change, "nothing is on its way"
        self.let_group_arrive(StorageFull("no room"))

    def settle(self) -> None:
        """Let everything happen that needs no time to pass."""
        self.work()
        self.scheduler.settle()
        while self.engine.last_change > self.engine.durable_change and not self.engine.failure:
            self.let_group_arrive()
            self.work()
            self.scheduler.settle()

    def pass_time(self, millis: int) -> None:
        """Let time pass, with everything happening when it is due."""
        end = self.clock.micros + millis * 1000
        self.settle()
        while (due := self.scheduler.next_due) is not None and due <= end:
            self.clock.micros = max(self.clock.micros, due)
            self.settle()
        self.clock.micros = end

    def crash(self) -> None:
        """Start anew with what has arrived. What was on its way is lost, and so is everything timed."""
        super().restart()

    def restart(self) -> None:
        """Let everything arrive, start anew, and let that settle."""
        self.settle()
        self.crash()
        self.settle()

    # Streams

    def put(self, path: str, body: bytes = b"", root: bytes = STREAM_ROOT) -> None:
        """Create a stream."""
        self.create(name_of(path, root), body)

    def put_wake_stream(self, path: str = "wake") -> None:
        """Create a wake stream."""
        self.create(name_of(path), content_type=b"application/json")

    def add(self, path: str, body: bytes = b"x", root: bytes = STREAM_ROOT) -> None:
        """Append to a stream."""
        self.append(name_of(path, root), body)

    def remove(self, path: str) -> None:
        """Delete a stream."""
        self.delete(name_of(path))

    def tail(self, path: str) -> int:
        """Give the durable tail of a stream."""
        return self.engine.readers.find(name_of(path), self.clock.now()).committed.tail

    def kept_incarnation(self, path: str) -> int:
        """Give which incarnation a stream is."""
        return self.engine.readers.find(name_of(path), self.clock.now()).committed.identity.incarnation

    def events(self, path: str = "wake") -> list[WakeEvent]:
        """Read a wake stream."""
        content = self.content(name_of(path))
        return msgspec.json.decode(b"[" + content.rstrip(b",") + b"]", type=list[WakeEvent])

    # Subscriptions

    def hook(
        self,
        subscription_id: str = "s",
        pattern: str | None = "events/*",
        streams: tuple[str, ...] = (),
        root: bytes = STREAM_ROOT,
    ) -> Subscription:
        """Create a webhook subscription."""
        config = Config("webhook", pattern, streams, HOOK, lease_ttl_ms=LEASE_MS)
        return self.subscribe(subscription_id, config, root)[0]

    def pull(
        self, subscription_id: str = "s", pattern: str | None = "events/*", streams: tuple[str, ...] = ()
    ) -> Subscription:
        """Create a pull-wake subscription."""
        config = Config("pull-wake", pattern, streams, wake_stream="wake", lease_ttl_ms=LEASE_MS)
        return self.subscribe(subscription_id, config)[0]

    def subscribe(self, subscription_id: str, config: Config, root: bytes = STREAM_ROOT) -> tuple[Subscription, bool]:
        """Create a subscription, or find it, with everything that its pattern links looked up in one go."""
        backfill = self.subscriptions.begin_backfill(root, subscription_id, config)
        while backfill and not backfill.step():
            pass
        return self.subscriptions.subscribe(root, subscription_id, "http://here", config, backfill)

    def found(self, subscription_id: str = "s", root: bytes = STREAM_ROOT) -> Subscription:
        """Give a subscription as memory has it."""
        return self.subscriptions.find(root, subscription_id)

    def stored(self, subscription_id: str = "s", root: bytes = STREAM_ROOT) -> Subscription | None:
        """Give a subscription as the storage has it."""
        subscription: Subscription | None = None
        for body in self.engine.readers.read_all(record_name(root, subscription_id)):
            for event in decode_events(body):
                subscription = fold(subscription, event)
        return subscription

    def answer(self, sent: Sent | None = None, *, taken: bool = True, done: bool = False) -> None:
        """Let a receiver answer a wake, the last one unless another is given."""
        sent = sent or self.sent[-1]
        self.subscriptions.delivered(sent.subscription, sent.generation, Delivery(taken, done))

    def claim(self, subscription_id: str = "s", worker: str = "w1") -> Wake:
        """Claim a wake."""
        while (claimed := self.subscriptions.claim(STREAM_ROOT, subscription_id, worker)) is None:
            pass
        assert claimed.wake is not None
        return claimed.wake

    def report(self, subscription_id: str = "s", *acks: tuple[str, int], done: bool = False) -> bool:
        """Report on the present wake."""
        subscription = self.found(subscription_id)
        assert subscription.wake is not None
        return self.report_on(subscription_id, subscription.wake.wake_id, subscription.generation, *acks, done=done)

    def report_nothing(self) -> bool:
        """Report on a wake that there never was."""
        return self.report_on("s", "w", 1)

    def report_on(
        self, subscription_id: str, wake_id: str, generation: int, *acks: tuple[str, int], done: bool = False
    ) -> bool:
        """Report on a wake."""
        return self.subscriptions.report(STREAM_ROOT, subscription_id, WakeReport(wake_id, generation, acks, done))


def comparable(rig: SubscribingRig, subscription: Subscription | None) -> object:
    """Give what a subscription says that matters: of a stream that is gone, no position does."""
    if subscription is None:
        return None
    root = subscription.root.encode()
    links = {path: link for path, link in subscription.links.items() if _is_there(rig, name_of(path, root), link)}
    return msgspec.structs.replace(subscription, links=links)


def _is_there(rig: SubscribingRig, name: bytes, link: Link) -> bool:
    head = durable(rig.engine, name)
    return head is not None and head.identity.incarnation == link.incarnation


def hooked_rig(tuning: SubscriptionsTuning = DEFAULT_TUNING.subscriptions) -> SubscribingRig:
    """Make an engine with a webhook subscription `s` to the empty stream `events/a`."""
    rig = SubscribingRig(tuning=tuning)
    rig.put("events/a")
    rig.hook()
    rig.settle()
    return rig


def pulled_rig(limits: Limits = UNBOUNDED) -> SubscribingRig:
    """Make an engine with a pull-wake subscription `s` to the empty stream `events/a`."""
    rig = SubscribingRig(limits=limits)
    rig.put_wake_stream()
    rig.put("events/a")
    rig.pull()
    rig.settle()
    return rig


def generations(rig: SubscribingRig) -> list[int]:
    """Give the generations that were sent, in order."""
    return [sent.generation for sent in rig.sent]
