"""HTTP as the client sees it: a request, and what can break between it and its answer.

The rule: nobody but `httpx`, and its two sides, knows which library sends requests. It is loaded when a client is made
without a wire of its own, so that the command line, which has one, never waits for it.

ConnectionBroken    the request may have been done or not
├── NotConnected    it was never sent
└── AnswerLate      no answer, or no more of it, came in time
"""

import socket
from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct


class ConnectionBroken(Exception):
    """A connection ended before its answer did, or what came over it was not HTTP."""


class NotConnected(ConnectionBroken):
    """There was no connection to send a request over."""


class AnswerLate(ConnectionBroken):
    """Nothing came for longer than somebody wanted to wait."""


class Request(Struct, frozen=True):
    """What is asked, and how long is waited: for a connection or for room to send, and for each part of the answer."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | None
    timeout_secs: float
    read_timeout_secs: float

    def __str__(self) -> str:
        return f"{self.method} {self.url.partition('?')[0]}"


def shut(connection: socket.socket) -> None:
    """End a connection that somebody waits for: to close it would not wake them, this does."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
