"""Tuning of the HTTP/1.1 transport: timers and sizes that are not settings. Only tests choose others."""

from msgspec import Struct


class ConnectionTuning(Struct, frozen=True, kw_only=True):
    """Bounds of one connection."""

    linger_secs: float = 5.0
    """How long a refused client may go on to send before the connection is aborted."""

    max_outstanding: int = 128
    """Requests that may wait for their answer before no more is read."""

    handled_at_once: int = 32
    """Requests of one read that are handled in one turn of the loop: more would make other connections wait."""

    max_queued_bytes: int = 1024 * 1024
    """Request bodies that may wait for their turn before no more is read."""

    write_high_bytes: int = 256 * 1024
    """From so many unsent bytes on the client counts as congested."""


class EncryptionTuning(Struct, frozen=True, kw_only=True):
    """How encrypted connections are accepted."""

    min_handshakes: int = 64
    """Handshakes that may be under way even if no connection is free: those clients are told so, encrypted."""

    accepted_at_once: int = 16
    """Connections accepted in one turn of the loop, so that others get their turn."""

    pause_secs: float = 0.2
    """How long nothing is accepted after `accept` has failed, as it does when no file descriptor is left."""

    closing_secs: float = 5.0
    """How long the other side may take to answer the end of the encrypted connection."""


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
    """Refused connections that are kept open at a time so that their answer is read: each is an open file."""

    turned_away_secs: float = 1.0
    """How long a refused connection is kept open."""

    abort_secs: float = 1.0
    """How long aborted connections may take to release what they hold, and handshakes to end before a restart."""

    still_secs: float = 2.0
    """How long at most nobody is served before a restart, for the sake of requests that have begun meanwhile."""

    certificate_secs: float = 2.0
    """How often the files of the certificate are looked at."""

    poll_secs: float = 0.005
    """How often a listener that hands over looks whether its connections have settled."""

    connection: ConnectionTuning = ConnectionTuning()
    encryption: EncryptionTuning = EncryptionTuning()
