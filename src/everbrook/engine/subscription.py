"""A subscription in memory: its state, the streams that may have news for it, and what is timed."""

from msgspec import Struct

from everbrook.engine.clock import Timer
from everbrook.protocol.subscriptions.state import Event, Subscription, fold


class Trouble(Struct, frozen=True):
    """Why a subscription can't wake anybody: the code and the words of what refused its wake."""

    code: str
    detail: str


class Active:
    """One subscription. `candidates` are the streams that had news when they were last heard of."""

    __slots__ = (
        "candidates",
        "delivering",
        "name",
        "queued",
        "stated_bytes",
        "subscription",
        "timer",
        "trouble",
        "waits_until",
        "written_bytes",
    )

    def __init__(self, name: bytes, subscription: Subscription) -> None:
        self.name = name
        self.subscription = subscription
        self.candidates: dict[str, None] = {}
        self.timer: Timer | None = None
        self.queued = False
        self.delivering = 0
        """The generation that is being delivered just now, if one is."""
        self.waits_until = 0
        """When to try again to wake, if that could not be told to anybody."""
        self.trouble: Trouble | None = None
        """Why its last wake was refused, until there is another."""
        self.written_bytes = 0
        self.stated_bytes = 0

    def take(self, events: tuple[Event, ...]) -> None:
        """Become what events make of it."""
        for event in events:
            self.subscription = fold(self.subscription, event)

    def forget(self, path: str, incarnation: int) -> None:
        """Forget a stream that was dropped: one that is created under its name again is another."""
        self.candidates.pop(path, None)
        link = self.subscription.links.get(path)
        if link and link.incarnation == incarnation:
            del self.subscription.links[path]

    def stop(self) -> None:
        """Be timed no more."""
        if self.timer:
            self.timer.cancel()
            self.timer = None
