"""The state of a connection: its phase, and an inspection of it for tests and diagnosis."""

from enum import IntEnum

from msgspec import Struct


class State(IntEnum):
    """The phases of a connection, in their order. A phase may be left out, but none comes back."""

    OPEN = 0
    """Requests are read and answered."""

    LEAVING = 1
    """No further request is read: the next image of the server gets the socket once nothing is outstanding."""

    STOPPING = 2
    """The connection closes once nothing is outstanding."""

    REFUSED = 3
    """What arrives is dropped. A refusal waits until all requests before it are answered."""

    LINGERING = 4
    """The refusal is written. The client may still be sending, and a reset would take the refusal from it."""

    ENDED = 5
    """The connection is closed, or is as soon as everything is written."""


# A global name is looked up ten times faster than a member of an enumeration, and each request looks up several.
OPEN, LEAVING, STOPPING, REFUSED, LINGERING, ENDED = State


class ConnectionInspection(Struct, frozen=True, kw_only=True):
    """A connection at a moment. It is made on demand, so that it costs connections nothing."""

    reading: bool
    """Whether bytes are read from the client, rather than left in the kernel."""

    receiving: bool
    """Whether the beginning of a request has arrived, and its end has not."""

    streaming: bool
    """Whether its body is taken while it arrives."""

    body_bytes: int
    """How much of its body has arrived."""

    held_body_bytes: int
    """How much of its body the connection holds in memory."""

    queued: int
    """Requests that wait for their turn."""

    queued_bytes: int
    """The size of their bodies."""

    parked: int
    """Answers that wait until their change is durable."""

    deferred: bool
    """Whether an answer is given piece by piece, or waits for something."""

    refusing: bool
    """Whether a refusal, which ends the connection, waits for its turn."""
