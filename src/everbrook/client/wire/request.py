"""A request, and the errors of its connection.

The rule: `httpx` and the modules that import it are the only ones that know httpx2. They are loaded when a client is
made without a wire of its own; the command line has one, and does not wait for httpx2 to load.

ConnectionBroken    the server may have processed the request or not
├── NotConnected    the request was not sent
└── ResponseLate    the response, or the next part of it, did not arrive in time
"""

import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import TypedDict

from msgspec import Struct


class ConnectionBroken(Exception):
    """The connection ended before the response did, or did not carry HTTP."""


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
    """The longest wait for a part of the response."""


class Request(Struct, frozen=True):
    """A request with its timeouts: to connect and send, and for each part of the response."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | None
    timeout_secs: float
    read_timeout_secs: float

    def __str__(self) -> str:
        return f"{self.method} {self.url.partition('?')[0]}"


def shut(connection: socket.socket) -> None:
    """End a connection that another thread reads from. Closing it would not wake the reader; a shutdown does."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
