"""What became of a command to a subscription."""

from msgspec import Struct

from everbrook.protocol.subscriptions.state import Event, Subscription


class Confirmed(Struct, frozen=True):
    """The subscription was there, configured as asked."""

    subscription: Subscription


class Changed(Struct, frozen=True):
    """Events became a part of the subscription, and took so many bytes."""

    name: bytes
    events: tuple[Event, ...]
    size: int
