"""Tuning of a whole server: timers and sizes that are not settings, one struct per component, which holds the defaults.

Users change settings; only tests change the tuning. It mirrors the construction: each component gets its part
from the one that makes it. This module imports nothing heavy, because every server loads it.
"""

from msgspec import Struct

from everbrook.engine.tuning import EngineTuning


class WatchTuning(Struct, frozen=True, kw_only=True):
    """How a file of keys is watched."""

    look_secs: float = 1.0
    """How long a check of the file is valid before the file is checked again."""

    max_file_bytes: int = 16 * 1024 * 1024
    """A larger file is refused."""


class IssuerTuning(Struct, frozen=True, kw_only=True):
    """How the keys of an issuer are fetched."""

    hold_off_secs: float = 60.0
    """How long after the start of a fetch unknown keys cause no other fetch."""

    retry_secs: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0, 30.0)
    """The pauses after failed fetches while no keys are known; the last one repeats."""

    timeout_secs: float = 5.0
    """How long a fetch may take, and so how long it may delay the start of the server."""

    max_missed: int = 1000
    """Unknown key ids that are remembered with the time at which they were first named."""

    max_withdrawn: int = 1000
    """Key ids that are remembered as withdrawn by the issuer."""


class GuessTuning(Struct, frozen=True, kw_only=True):
    """The rate limits of bad signatures."""

    per_sec: float = 8.0
    """The rate for one address."""

    all_per_sec: float = 128.0
    """The rate for all addresses together."""

    burst_secs: float = 2.0
    """A burst may have as many bad signatures as the rate allows in this time."""

    remembered_secs: float = 10.0
    """How long after a bad signature an address counts as one that guesses."""


class TokenTuning(Struct, frozen=True, kw_only=True):
    """How tokens are verified."""

    max_remembered: int = 10_000
    """Verified tokens that are remembered, so that they need not be verified again."""

    guesses: GuessTuning = GuessTuning()


class AuthTuning(Struct, frozen=True, kw_only=True):
    """All of authentication and authorization."""

    recheck_secs: float = 5.0
    """After how long at most a live read ends whose permission was revoked."""

    watch: WatchTuning = WatchTuning()
    issuer: IssuerTuning = IssuerTuning()
    tokens: TokenTuning = TokenTuning()


AUTH_TUNING = AuthTuning()


class ConnectionTuning(Struct, frozen=True, kw_only=True):
    """Bounds of one connection."""

    linger_secs: float = 5.0
    """How long a refused client may continue to send before the connection is aborted."""

    max_outstanding: int = 128
    """Requests that may wait for their response before reading pauses."""

    handled_at_once: int = 32
    """Requests of one read that are handled in one turn of the loop. More would delay other connections."""

    max_queued_bytes: int = 1024 * 1024
    """Bytes of request bodies that may wait for their turn before reading pauses."""

    write_high_bytes: int = 256 * 1024
    """The number of unsent bytes from which the client counts as congested."""


class EncryptionTuning(Struct, frozen=True, kw_only=True):
    """How encrypted connections are accepted."""

    min_handshakes: int = 64
    """Handshakes that may be under way even if no connection is free: those clients get an encrypted refusal."""

    accepted_at_once: int = 16
    """Connections accepted in one turn of the loop, so that others get their turn."""

    pause_secs: float = 0.2
    """The pause after `accept` has failed, as it does when no file descriptor is left."""

    closing_secs: float = 5.0
    """How long the other side may take to close the encrypted connection."""


class ListenerTuning(Struct, frozen=True, kw_only=True):
    """Timers and sizes of the listener, and of what it makes."""

    tick_secs: float = 1.0
    """How often the connections are checked for timeouts, and the Date header is renewed."""

    backlog: int = 4096
    """The length of the kernel's queue of connections that wait to be accepted."""

    accepted_at_once: int = 64
    """Connections accepted in one turn of the loop besides the one that the loop itself accepts."""

    adopted_at_once: int = 100
    """Connections taken over from the previous image in one turn of the loop."""

    max_turned_away: int = 128
    """Refused connections that are kept open at a time so that clients can read the refusal. Each is an open file."""

    turned_away_secs: float = 1.0
    """How long a refused connection is kept open."""

    abort_secs: float = 1.0
    """How long aborted connections may take to release their resources, and handshakes to end before a restart."""

    still_secs: float = 2.0
    """The longest pause of the service before a restart, in which requests that have begun are completed."""

    certificate_secs: float = 2.0
    """How often the files of the certificate are checked."""

    poll_secs: float = 0.005
    """How often a listener that hands over checks whether its connections have settled."""

    connection: ConnectionTuning = ConnectionTuning()
    encryption: EncryptionTuning = EncryptionTuning()


class OverloadTuning(Struct, frozen=True, kw_only=True):
    """The timers and thresholds of the overload control."""

    beat_secs: float = 0.025
    """How often the lateness of the event loop is measured."""

    window_secs: float = 0.5
    """How long the strain must last for an overload to begin or end. Also how long a connection counts as busy."""

    few_changes: int = 2048
    """With fewer pending changes there is no overload, because one sync is enough for all of them."""


class ExchangeTuning(Struct, frozen=True, kw_only=True):
    """Bounds of a deferred response on the ASGI transport."""

    max_queued_bytes: int = 256 * 1024
    """The number of unsent bytes from which the reader counts as congested."""

    last_words_secs: float = 1.0
    """How long a reader may take to receive the end of its response when the ASGI server is stopping."""


class RestartTuning(Struct, frozen=True, kw_only=True):
    """Bounds of the check whether the next image would start."""

    check_secs: float = 30.0
    max_output_bytes: int = 2000
    """How much of the output of a failed check the error shows: its end, with the reason."""


class RegistryTuning(Struct, frozen=True, kw_only=True):
    """How the registry stream follows the streams: in batches, and compacted from time to time."""

    slice_streams: int = 256
    flush_secs: float = 0.05
    retry_secs: float = 1.0
    max_past_messages: int = 10_000
    """How many outdated messages the registry keeps, besides one for each stream, before it is replaced."""


class ResponseCacheTuning(Struct, frozen=True, kw_only=True):
    """The sizes of the cache of responses to reads."""

    max_bytes: int = 16 << 20
    max_entry_bytes: int = 256 << 10


class ServerTuning(Struct, frozen=True, kw_only=True):
    """The tuning of what `assemble` makes, and of the transports, which take theirs from the application."""

    engine: EngineTuning = EngineTuning()
    listener: ListenerTuning = ListenerTuning()
    exchange: ExchangeTuning = ExchangeTuning()
    auth: AuthTuning = AuthTuning()
    overload: OverloadTuning = OverloadTuning()
    registry: RegistryTuning = RegistryTuning()
    response_cache: ResponseCacheTuning = ResponseCacheTuning()
    restart: RestartTuning = RestartTuning()


DEFAULT_TUNING = ServerTuning()
