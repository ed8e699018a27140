# Written by tools/mirror.py from src/everbrook/client/_async/wire.py: change that file, not this one.
"""The interface to an HTTP library, which sends requests and returns responses."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

from everbrook.client.wire.request import Request


class Response(ABC):
    """A response whose body is not read yet. Reading it may raise `ConnectionBroken`."""

    status_code: int
    headers: Mapping[str, str]
    """The headers, found by their names in any case."""
    content: bytes = b""
    """The body, after `read`."""

    @abstractmethod
    def iter_bytes(self) -> Iterator[bytes]:
        """Return the body as it arrives."""

    @abstractmethod
    def close(self) -> None:
        """Release the connection."""

    @abstractmethod
    def interrupt(self) -> None:
        """End the response for a reader that waits in another task, as if the connection broke."""

    def read(self) -> bytes:
        """Read the body as a whole."""
        self.content = b"".join(list(self.iter_bytes()))
        return self.content


class Wire(ABC):
    """Connections that send requests."""

    @abstractmethod
    def send(self, request: Request) -> Response:
        """Send a request, or raise a `ConnectionBroken`. Redirects are not followed."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""
