"""Tuning of a whole server: one struct per component, which holds the defaults.

Users choose settings; only tests choose another tuning. It mirrors the construction: whoever makes a component gives it
its part. The structs are in modules that import nothing heavy, because every server loads them.
"""

from msgspec import Struct

from everbrook.engine.tuning import EngineTuning
from everbrook.server.auth.tuning import AuthTuning
from everbrook.server.http1.tuning import ListenerTuning
from everbrook.server.limits.tuning import OverloadTuning


class ExchangeTuning(Struct, frozen=True, kw_only=True):
    """Bounds of a deferred answer on the ASGI transport."""

    max_queued_bytes: int = 256 * 1024
    """From so many unsent bytes on the reader counts as congested."""

    last_words_secs: float = 1.0
    """How long a reader may take to receive the end of its answer when the server below is stopping."""


class RestartTuning(Struct, frozen=True, kw_only=True):
    """Bounds of the check whether the next image would start."""

    check_secs: float = 30.0
    max_output_bytes: int = 2000
    """How much of the output of a failed check the error shows: its end, which says why."""


class ServerTuning(Struct, frozen=True, kw_only=True):
    """The tuning of what `assemble` makes, and of the transports, which take theirs from the application."""

    engine: EngineTuning = EngineTuning()
    listener: ListenerTuning = ListenerTuning()
    exchange: ExchangeTuning = ExchangeTuning()
    auth: AuthTuning = AuthTuning()
    overload: OverloadTuning = OverloadTuning()
    restart: RestartTuning = RestartTuning()


DEFAULT_TUNING = ServerTuning()
