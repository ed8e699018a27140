"""The rules of subscriptions: creation, links, wakes, leases and acks (§6, §7).

A decision appends events to the record of the subscription and, for a pull-wake, the wake event to the wake stream.
Both are one change, so a generation and its wake event are stored together or not at all.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from everbrook.protocol.commands import Decision, Deleted, Untouched
from everbrook.protocol.content_type import JSON
from everbrook.protocol.errors import (
    AlreadyClaimed,
    Fenced,
    InvalidAck,
    InvalidRequest,
    NoPendingWork,
    SubscriptionExists,
    SubscriptionNotFound,
)
from everbrook.protocol.lifetime import ended, living_stream
from everbrook.protocol.messages import pack
from everbrook.protocol.state import WHOLE, Change, Drop, Head, Identity, Kept, Snapshot, Write
from everbrook.protocol.subscriptions.config import MAX_STREAMS, Config, require_others
from everbrook.protocol.subscriptions.pattern import compile_glob
from everbrook.protocol.subscriptions.subscription import (
    BEFORE_FIRST,
    Changed,
    Claim,
    Compact,
    Confirmed,
    Deliver,
    Delivered,
    Ended,
    Event,
    Failed,
    Held,
    Lapse,
    Link,
    Linked,
    LinkStreams,
    Report,
    Stated,
    Subscribe,
    Subscription,
    Unlinked,
    UnlinkStream,
    Unsubscribe,
    Wake,
    WakeUp,
    Woken,
    encode_events,
)
from everbrook.protocol.view import View

# The largest number of streams in one wake. The next wake has the others.
MAX_WAKE_STREAMS = 1000


def decide_subscribe(view: View, command: Subscribe) -> Decision:
    """Create a subscription that is linked at the present tails of its streams, or find it (§6.2)."""
    present = view.subscription(command.name)
    if present:
        if present.config.digest != command.config.digest:
            raise SubscriptionExists(f"the subscription {command.id!r} exists with another configuration")
        return Decision(Confirmed(present))
    config = command.config
    named = {path: _link_at_tail(view, command.root, path) for path in config.streams}
    links = {**command.matched, **named}
    subscription = Subscription(
        command.id, command.root.decode(), command.base_url, command.now, config, set(config.streams), links
    )
    identity = Identity(command.name, command.incarnation, JSON, JSON, command.now)
    events = (Stated(subscription),)
    data, ends = pack(identity, encode_events(events), 0)
    head = Head(identity, len(data), command.now)
    return Decision(Changed(command.name, events, len(data)), (Write(head, data, ends, created=True),))


def backfill(config: Config, root: bytes, heads: Iterable[Head]) -> dict[str, Link]:
    """Link the streams that the pattern of a new subscription matches, at their tails (§6.2)."""
    named = ((head.identity.name[len(root) :].decode(), head) for head in heads)
    return {path: Link(head.identity.incarnation, head.tail) for path, head in named if links_by_pattern(config, path)}


def _link_at_tail(view: View, root: bytes, path: str) -> Link:
    stream = view.stream(root + path.encode())
    return Link(stream.head.identity.incarnation, stream.head.tail) if stream else Link(0, BEFORE_FIRST)


def _known(view: View, name: bytes) -> Subscription:
    subscription = view.subscription(name)
    if subscription is None:
        raise SubscriptionNotFound("there is no such subscription")
    return subscription


def _append(head: Head, body: bytes, now: int) -> Write:
    """Append to the record of a subscription, or to a wake stream."""
    data, ends = pack(head.identity, body, head.tail)
    return Write(replace(head, tail=head.tail + len(data), written_at=max(now, head.written_at)), data, ends)


def _change(view: View, name: bytes, now: int, *events: Event, wake: Change = ()) -> Decision:
    """Return the decision that appends events to the record of a subscription, together with its wake event."""
    write = _append(living_stream(view, name, now).head, encode_events(events), now)
    return Decision(Changed(name, events, len(write.data)), (write, *wake))


def decide_unsubscribe(view: View, command: Unsubscribe) -> Decision:
    """Delete a subscription. Commands that arrive for it later are refused (§6.3)."""
    _known(view, command.name)
    return Decision(Deleted(), (Drop(living_stream(view, command.name, command.now).head),))


def decide_link(view: View, command: LinkStreams) -> Decision:
    """Link streams at their tails. Links that exist keep their offsets (§6.4)."""
    subscription = _known(view, command.name)
    require_others(command.paths, subscription.config.wake_stream)
    new = [path for path in dict.fromkeys(command.paths) if path not in subscription.explicit]
    if not new:
        return Decision(Untouched())
    if (count := len(subscription.explicit) + len(new)) > MAX_STREAMS:
        raise InvalidRequest(f"a subscription names at most {MAX_STREAMS} streams, this would make {count}")
    root = subscription.root.encode()
    links = {path: _present_link(subscription, path) or _link_at_tail(view, root, path) for path in new}
    return _change(view, command.name, command.now, Linked(links))


def _present_link(subscription: Subscription, path: str) -> Link | None:
    """Return the present link of a stream. Without news so far, a stream of the pattern is linked at its beginning."""
    unbegun = Link(0, BEFORE_FIRST) if matched_by_pattern(subscription, path) else None
    return subscription.links.get(path, unbegun)


def decide_unlink(view: View, command: UnlinkStream) -> Decision:
    """Remove an explicit link. One that the pattern makes stays, with its cursor (§6.4)."""
    subscription = _known(view, command.name)
    if command.path not in subscription.explicit:
        return Decision(Untouched())
    forgotten = not matched_by_pattern(subscription, command.path)
    return _change(view, command.name, command.now, Unlinked(command.path, forgotten))


def matched_by_pattern(subscription: Subscription, path: str) -> bool:
    """Return whether a subscription's glob links a stream."""
    return links_by_pattern(subscription.config, path)


def links_by_pattern(config: Config, path: str) -> bool:
    """Return whether the glob of a configuration links a stream. It never links the wake stream."""
    pattern = config.pattern
    return pattern is not None and path != config.wake_stream and compile_glob(pattern).matches(path)


def is_linked(subscription: Subscription, path: str) -> bool:
    """Return whether a subscription links a stream, explicitly or by its pattern."""
    return path in subscription.explicit or matched_by_pattern(subscription, path)


def news(view: View, subscription: Subscription, candidates: tuple[str, ...], now: int) -> dict[str, Link]:
    """Return the candidates that have news, with their tails."""
    tails: dict[str, Link] = {}
    for path in candidates:
        stream = view.stream(subscription.root.encode() + path.encode())
        if stream is None or ended(stream.head, stream, now) or not is_linked(subscription, path):
            continue
        incarnation, tail = stream.head.identity.incarnation, stream.head.tail
        if subscription.has_news(path, incarnation, tail):
            tails[path] = Link(incarnation, tail)
            if len(tails) == MAX_WAKE_STREAMS:
                break
    return tails


def decide_wake(view: View, command: WakeUp) -> Decision:
    """Begin a generation, unless one is in flight or no candidate has news (§7)."""
    subscription = view.subscription(command.name)
    if subscription is None or subscription.wake:
        return Decision(Untouched())
    tails = news(view, subscription, command.candidates, command.now)
    if not tails:
        return Decision(Untouched())
    generation = subscription.generation + 1
    if subscription.pull:
        # A pull-wake has no lease until a worker claims it.
        told = _wake_event(view, subscription, generation, next(iter(tails)), command.now)
        wake = Wake(command.wake_id, tails, told_in=told[0].head.identity.incarnation)
        return _change(view, command.name, command.now, Woken(generation, wake), wake=told)
    lease_until = command.now + subscription.config.lease_ttl_ms
    wake = Wake(command.wake_id, tails, lease_until=lease_until)
    return _change(view, command.name, command.now, Woken(generation, wake))


def _wake_event(view: View, subscription: Subscription, generation: int, path: str, now: int) -> Change:
    """Append the wake event to the wake stream, which must exist (§7.2)."""
    name = (subscription.root + (subscription.config.wake_stream or "")).encode()
    head = living_stream(view, name, now).head
    if head.closed:
        raise InvalidRequest(f"the wake stream {subscription.config.wake_stream!r} is closed")
    event = {
        "type": "wake",
        "subscription_id": subscription.id,
        "stream": path,
        "generation": generation,
        "ts": now,
    }
    return (_append(head, msgspec.json.encode(event), now),)


def decide_claim(view: View, command: Claim) -> Decision:
    """Give the lease to a worker (§7.2)."""
    subscription = _known(view, command.name)
    if not subscription.pull:
        raise InvalidRequest("a webhook subscription is not claimed: its receiver is called")
    wake = subscription.wake
    if wake and wake.holder is not None:
        raise AlreadyClaimed(f"{wake.holder!r} holds the lease", holder=wake.holder, generation=subscription.generation)
    tails = news(view, subscription, command.candidates, command.now)
    if not tails:
        raise NoPendingWork("no stream of the subscription has new messages")
    lease_until = command.now + subscription.config.lease_ttl_ms
    told_in = wake.told_in if wake else 0
    begun = Wake(wake.wake_id if wake else command.wake_id, tails, command.worker, lease_until, told_in)
    # An announced wake keeps its generation, which its wake event names. A claim without one begins a new generation.
    generation = subscription.generation if wake else subscription.generation + 1
    return _change(view, command.name, command.now, Woken(generation, begun))


def decide_report(view: View, command: Report) -> Decision:
    """Record acks of the current wake, and end it if the work is done (§7.1, §7.2, §7.3)."""
    subscription = _known(view, command.name)
    wake = subscription.wake
    if wake is None or command.wake_id != wake.wake_id or command.generation != subscription.generation:
        raise Fenced(f"generation {command.generation} is over; the current one is {subscription.generation}")
    if wake.lease_until is not None and wake.lease_until <= command.now:
        raise Fenced("the lease has expired")
    acks = {path: _ack(view, subscription, path, offset) for path, offset in command.acks}
    if command.done:
        return _change(view, command.name, command.now, Ended(acks))
    lease_until = command.now + subscription.config.lease_ttl_ms
    return _change(view, command.name, command.now, Held(wake.holder, lease_until, acks))


def _ack(view: View, subscription: Subscription, path: str, offset: int) -> Link:
    """Validate an ack: it must not move back, and must not lie beyond the tail."""
    stream = view.stream((subscription.root + path).encode())
    if stream is None or not is_linked(subscription, path):
        raise InvalidAck(f"{path!r} is not a stream of the subscription")
    head = stream.head
    acked = subscription.acked(path, head.identity.incarnation)
    if offset < acked or offset > head.tail:
        raise InvalidAck(
            f"an ack of {path!r} lies between {max(acked, 0):016d} and {head.tail:016d}, got {offset:016d}"
        )
    return Link(head.identity.incarnation, offset)


def decide_lapse(view: View, command: Lapse) -> Decision:
    """End a wake whose lease has run out (§7.3)."""
    subscription = view.subscription(command.name)
    wake = subscription.wake if subscription else None
    if wake is None or wake.lease_until is None or wake.lease_until > command.now:
        return Decision(Untouched())
    return _change(view, command.name, command.now, Ended())


def decide_deliver(view: View, command: Deliver) -> Decision:
    """Record the result of a delivery. A receiver that is done acknowledges all tails of its wake (§7.1)."""
    subscription = view.subscription(command.name)
    if subscription is None:
        return Decision(Untouched())
    events: list[Event] = []
    if command.retry_at is not None:
        events.append(Failed(subscription.failures + 1, command.retry_at))
    elif subscription.failures:
        events.append(Delivered())
    wake = subscription.wake
    if command.done and wake and command.generation == subscription.generation:
        events.append(Ended(_newer(subscription, wake.tails)))
    if not events:
        return Decision(Untouched())
    return _change(view, command.name, command.now, *events)


def _newer(subscription: Subscription, tails: dict[str, Link]) -> dict[str, Link]:
    """Return the tails of a wake that lie beyond the acked offsets, of streams that are still linked."""
    return {
        path: link
        for path, link in tails.items()
        if link.acked > subscription.acked(path, link.incarnation) and is_linked(subscription, path)
    }


def decide_compact(view: View, command: Compact) -> Decision:
    """Append an event with the whole state, and cut the events before it."""
    stated = encode_events((Stated(_known(view, command.name)),))
    write = _append(living_stream(view, command.name, command.now).head, stated, command.now)
    start = write.head.tail - len(write.data)
    kept = Kept(start, Snapshot(start, command.now)) if start else WHOLE
    head = replace(write.head, kept=kept)
    return Decision(Changed(command.name, (), len(write.data)), (replace(write, head=head, cut=True),))
