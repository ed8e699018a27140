"""A request, and the errors between it and its answer.

The rule: `httpx` and what imports it are the only modules that know httpx2. They are loaded when a client is made
without a wire of its own, so that the command line, which has one, never waits for them.

ConnectionBroken    the request may have been done or not
├── NotConnected    it was never sent
└── ResponseLate      no answer, or no more of it, came in time
"""

import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import TypedDict

from msgspec import Struct


class ConnectionBroken(Exception):
    """The connection ended before the answer did, or did not carry HTTP."""


class NotConnected(ConnectionBroken):
    """No connection could be made, so the request was not sent."""


class ResponseLate(ConnectionBroken):
    """Nothing arrived within the timeout."""


class RequestOptions(TypedDict, total=False):
    """What a request may have besides its method and URL."""

    query: Mapping[str, str] | None
    headers: Mapping[str, str] | None
    content: bytes | None
    timeout_secs: float | None
    """The longest wait for a part of the answer."""


class Request(Struct, frozen=True):
    """A request with its timeouts: to connect and send, and for each part of the answer."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | None
    timeout_secs: float
    read_timeout_secs: float

    def __str__(self) -> str:
        return f"{self.method} {self.url.partition('?')[0]}"


def shut(connection: socket.socket) -> None:
    """End a connection that another thread reads from: closing it would not wake the reader, this does."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
