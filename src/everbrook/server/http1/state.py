"""The state of a connection: its phase, and an inspection of it for tests and diagnosis."""

from enum import IntEnum

from msgspec import Struct


class State(IntEnum):
    """The phases of a connection, in their order. A connection may skip phases, but never goes back."""

    OPEN = 0
    """Requests are read and handled."""

    LEAVING = 1
    """No further request is read. Once nothing is outstanding, the next image of the server gets the socket."""

    STOPPING = 2
    """The connection closes as soon as nothing is outstanding."""

    REFUSED = 3
    """Incoming bytes are dropped. A refusal waits until all earlier responses are written."""

    LINGERING = 4
    """The refusal is written. Incoming bytes are still read and dropped: a reset could destroy the refusal."""

    ENDED = 5
    """The connection is closed, or closes as soon as everything is written."""


# Looking up a global name is ten times faster than a member of an enumeration, and each request needs several.
OPEN, LEAVING, STOPPING, REFUSED, LINGERING, ENDED = State


class ConnectionInspection(Struct, frozen=True, kw_only=True):
    """A snapshot of a connection. It is made on demand, so that connections need no memory for it."""

    reading: bool
    """Whether bytes are read from the client, rather than left in the kernel."""

    receiving: bool
    """Whether a request has arrived in part."""

    streaming: bool
    """Whether its body is processed while it arrives."""

    body_bytes: int
    """How much of its body has arrived."""

    held_body_bytes: int
    """How much of its body the connection holds in memory."""

    queued: int
    """Requests that wait for their turn."""

    queued_bytes: int
    """The size of their bodies."""

    parked: int
    """Responses that wait until their change is durable."""

    deferred: bool
    """Whether a deferred response is under way."""

    refusing: bool
    """Whether a refusal, which ends the connection, waits for its turn."""
