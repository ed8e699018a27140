"""Timeouts and sizes of the client that no user sets: tests shorten them."""

from msgspec import Struct


class ClientTuning(Struct, frozen=True, kw_only=True):
    """What a client waits for and holds at most. A transport carries it to everything that asks through it."""

    first_event_secs: float = 5.0
    """An event stream begins with a control event. Where none comes in this time, something on the way buffers."""
    silence_secs: float = 45.0
    """An event stream that has had events and is silent for this long is broken."""
    long_poll_secs: float = 90.0
    max_fruitless: int = 3
    """A follower falls back to long-polls after this many event streams in a row without an event."""
    hasty_secs: float = 0.1
    """A live answer without news that came sooner than this did not wait: the next request is delayed."""
    save_secs: float = 1.0
    """How often a reader saves its position within a page, where it saves positions."""
    list_page_entries: int = 1000
    max_waiting_changes: int = 100_000
    """How many changes wait for an iterator that does not take them."""
    state_close_secs: float = 1.0
    """How long the end of a state waits for its follower, which may be waiting for an answer."""


DEFAULT_TUNING = ClientTuning()
