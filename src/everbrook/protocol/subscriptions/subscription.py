"""A subscription: its state, its commands, and the events from which it is folded.

Each change of a subscription appends events to its record, a stream without a URL. It is not stored which streams have
news: this follows from their tails and from the acks, so that no crash can lose it (§7).
"""

from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from everbrook.protocol.offset import format_offset
from everbrook.protocol.subscriptions.config import Config

BEFORE_FIRST: Final = -1


class Link(Struct, frozen=True, array_like=True):
    """The progress of the work on one incarnation of a stream: `acked` is the last processed offset."""

    incarnation: int
    acked: int


class Wake(Struct, frozen=True):
    """A wake in flight: the streams with news and their tails, the holder of the lease, and its end (§7.3)."""

    wake_id: str
    tails: dict[str, Link]
    holder: str | None = None
    lease_until: int | None = None
    told_in: int = 0
    """The incarnation of the wake stream that has the wake event, for a pull-wake."""


class Subscription(Struct):
    """The state of a subscription. Only events change it."""

    id: str
    root: str
    base_url: str
    created_at: int
    config: Config
    explicit: set[str]
    links: dict[str, Link]
    generation: int = 0
    wake: Wake | None = None
    failures: int = 0
    next_attempt_at: int = 0

    @property
    def pull(self) -> bool:
        """Whether workers claim the wakes; otherwise the server calls a webhook."""
        return self.config.type == "pull-wake"

    def acked(self, path: str, incarnation: int) -> int:
        """Return the last processed offset of a stream; `BEFORE_FIRST` if the subscription does not know it yet."""
        link = self.links.get(path)
        return link.acked if link and link.incarnation == incarnation else BEFORE_FIRST

    def has_news(self, path: str, incarnation: int, tail: int) -> bool:
        """Return whether a stream has unprocessed messages (§7)."""
        return tail > max(0, self.acked(path, incarnation))


class Linked(Struct, frozen=True, tag="linked"):
    """Streams were linked explicitly, at these offsets."""

    links: dict[str, Link]


class Unlinked(Struct, frozen=True, tag="unlinked"):
    """An explicit link was removed. `forgotten`: the pattern does not link the stream either."""

    path: str
    forgotten: bool


class Woken(Struct, frozen=True, tag="woken"):
    """A new generation began."""

    generation: int
    wake: Wake


class Held(Struct, frozen=True, tag="held"):
    """A worker has the lease until `lease_until`, and may have processed a part of the work."""

    holder: str | None
    lease_until: int
    acks: dict[str, Link] = {}


class Ended(Struct, frozen=True, tag="ended"):
    """The wake is over: done, released or lapsed."""

    acks: dict[str, Link] = {}


class Failed(Struct, frozen=True, tag="failed"):
    """A delivery failed. The next attempt is made at `next_attempt_at`."""

    failures: int
    next_attempt_at: int


class Delivered(Struct, frozen=True, tag="delivered"):
    """A delivery succeeded after others had failed."""


class Stated(Struct, frozen=True, tag="stated"):
    """The whole state: the first event of a subscription, and the only one after a compaction."""

    subscription: Subscription


Event = Linked | Unlinked | Woken | Held | Ended | Failed | Delivered | Stated

_events = msgspec.json.Decoder(list[Event])


def decode_events(body: bytes) -> list[Event]:
    """Decode stored events."""
    return _events.decode(body)


def encode_events(events: tuple[Event, ...]) -> bytes:
    """Encode events for their record."""
    return msgspec.json.encode(events)


def fold(subscription: Subscription | None, event: Event) -> Subscription:
    """Return the subscription after an event. All events but `Stated` change it in place."""
    if isinstance(event, Stated):
        return event.subscription
    assert subscription is not None  # noqa: S101 - the first event states everything
    _apply(subscription, event)
    return subscription


def _apply(subscription: Subscription, event: Event) -> None:
    wake = subscription.wake
    match event:
        case Linked(links):
            subscription.explicit.update(links)
            for path, link in links.items():
                # A link that exists keeps its progress (§6.4).
                subscription.links.setdefault(path, link)
        case Unlinked(path, forgotten):
            subscription.explicit.discard(path)
            if forgotten:
                subscription.links.pop(path, None)
        case Woken(generation, new):
            subscription.generation, subscription.wake = generation, new
        case Held(holder, lease_until, acks):
            subscription.links.update(acks)
            subscription.wake = replace(wake, holder=holder, lease_until=lease_until) if wake else None
        case Ended(acks):
            subscription.links.update(acks)
            subscription.wake = None
        case Failed(failures, next_attempt_at):
            subscription.failures, subscription.next_attempt_at = failures, next_attempt_at
        case _:
            # `Delivered`: the delivery succeeded after failures.
            subscription.failures, subscription.next_attempt_at = 0, 0


def format_position(offset: int) -> str:
    """Format an offset for clients; -1 if nothing was processed yet."""
    return "-1" if offset == BEFORE_FIRST else format_offset(offset).decode()


class Subscribe(Struct, frozen=True):
    """Create a subscription under a stream root, whose URL is `base_url`, or find it with the same configuration
    (§6.2).

    `matched` are the streams that its pattern links. The engine finds them before the decision, because that may take
    several turns of the event loop.
    """

    name: bytes
    now: int
    incarnation: int
    id: str
    root: bytes
    base_url: str
    config: Config
    matched: dict[str, Link] = {}


class Unsubscribe(Struct, frozen=True):
    """Delete a subscription (§6.3)."""

    name: bytes
    now: int


class LinkStreams(Struct, frozen=True):
    """Link streams explicitly (§6.4)."""

    name: bytes
    now: int
    paths: tuple[str, ...]


class UnlinkStream(Struct, frozen=True):
    """Remove an explicit link (§6.4)."""

    name: bytes
    now: int
    path: str


class WakeUp(Struct, frozen=True):
    """Begin a generation, if any of the candidates has news and no wake is in flight (§7)."""

    name: bytes
    now: int
    wake_id: str
    candidates: tuple[str, ...]


class Claim(Struct, frozen=True):
    """Take the lease of the present wake, or of a new one (§7.2)."""

    name: bytes
    now: int
    wake_id: str
    candidates: tuple[str, ...]
    worker: str


class Report(Struct, frozen=True):
    """Acknowledge processed offsets, and end the wake if it is done: a callback, an ack, a release (§7.1, §7.2)."""

    name: bytes
    now: int
    wake_id: str
    generation: int
    acks: tuple[tuple[str, int], ...] = ()
    done: bool = False


class Lapse(Struct, frozen=True):
    """End a wake whose lease has run out (§7.3)."""

    name: bytes
    now: int


class Deliver(Struct, frozen=True):
    """Record the result of a delivery: `retry_at` if it failed, and whether the receiver was done (§7.1)."""

    name: bytes
    now: int
    generation: int
    done: bool = False
    retry_at: int | None = None


class Compact(Struct, frozen=True):
    """Compact a subscription: replace its events by one with the whole state."""

    name: bytes
    now: int


SubscriptionCommand = (
    Subscribe | Unsubscribe | LinkStreams | UnlinkStream | WakeUp | Claim | Report | Lapse | Deliver | Compact
)


class Confirmed(Struct, frozen=True):
    """The subscription exists with the configuration of the command."""

    subscription: Subscription


class Changed(Struct, frozen=True):
    """Events were appended to the record of the subscription, `size` bytes."""

    name: bytes
    events: tuple[Event, ...]
    size: int
