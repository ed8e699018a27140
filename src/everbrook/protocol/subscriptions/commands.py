"""Commands to subscriptions. `name` is that of the record; times and random ids are given with them."""

from msgspec import Struct

from everbrook.protocol.subscriptions.config import Config
from everbrook.protocol.subscriptions.state import Link


class Subscribe(Struct, frozen=True):
    """Create a subscription under a stream root, whose URL is `base_url`, or find it as described (§6.2).

    `matched` are the streams that its pattern links. Whoever commands has looked them up, because that may take turns.
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
    """Begin a generation, if there is news in any of these streams and no wake is in flight (§7)."""

    name: bytes
    now: int
    wake_id: str
    candidates: tuple[str, ...]


class Claim(Struct, frozen=True):
    """Take the lease of a wake, or of one that begins with it (§7.2)."""

    name: bytes
    now: int
    wake_id: str
    candidates: tuple[str, ...]
    worker: str


class Report(Struct, frozen=True):
    """Say what was processed, and whether the work is done: a callback, an ack, or a release (§7.1, §7.2)."""

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
    """Note what became of a delivery: `retry_at` if it failed, and whether the receiver was done (§7.1)."""

    name: bytes
    now: int
    generation: int
    done: bool = False
    retry_at: int | None = None


class Compact(Struct, frozen=True):
    """Let a subscription forget its past."""

    name: bytes
    now: int


SubscriptionCommand = (
    Subscribe | Unsubscribe | LinkStreams | UnlinkStream | WakeUp | Claim | Report | Lapse | Deliver | Compact
)
