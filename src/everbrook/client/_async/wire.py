"""The interface to an HTTP library, which sends requests and returns responses."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping

from everbrook.client.wire.request import Request


class AsyncResponse(ABC):
    """A response whose body is not read yet. Reading it may raise `ConnectionBroken`."""

    status_code: int
    headers: Mapping[str, str]
    """The headers, found by their names in any case."""
    content: bytes = b""
    """The body, after `aread`."""

    @abstractmethod
    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Return the body as it arrives."""

    @abstractmethod
    async def aclose(self) -> None:
        """Release the connection."""

    @abstractmethod
    def interrupt(self) -> None:
        """End the response for a reader that waits in another task, as if the connection broke."""

    async def aread(self) -> bytes:
        """Read the body as a whole."""
        self.content = b"".join([piece async for piece in self.aiter_bytes()])
        return self.content


class AsyncWire(ABC):
    """Connections that send requests."""

    @abstractmethod
    async def send(self, request: Request) -> AsyncResponse:
        """Send a request, or raise a `ConnectionBroken`. Redirects are not followed."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close all connections."""
