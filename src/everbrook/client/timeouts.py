"""Timeouts and sizes of the client that users do not set. Only tests choose others."""

from msgspec import Struct


class ClientTuning(Struct, frozen=True, kw_only=True):
    """Timeouts and bounds of a client. The transport passes them to its readers, producers and states."""

    first_event_secs: float = 5.0
    """An event stream begins with a control event. If none comes in this time, a proxy on the way buffers events."""
    silence_secs: float = 45.0
    """An event stream that is silent for this long after its first event is broken."""
    long_poll_secs: float = 90.0
    max_fruitless: int = 3
    """A follower falls back to long-polls after this many event streams in a row without an event."""
    hasty_secs: float = 0.1
    """After a live response without news that arrives sooner, the next request is delayed: the server does not wait."""
    save_secs: float = 1.0
    """How often a reader saves its position within a page, where it saves positions."""
    page_bytes: int = 1024 * 1024
    """The size of pages that are requested. Servers that do not know `max_bytes` may send larger ones."""
    list_page_entries: int = 1000
    max_waiting_changes: int = 100_000
    """How many changes are queued for a slow iterator."""
    state_close_secs: float = 1.0
    """How long `close` of a materialiser waits for its follower to end."""


DEFAULT_TUNING = ClientTuning()
