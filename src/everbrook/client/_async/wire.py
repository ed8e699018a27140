"""What sends requests, whichever library that is, and the answers that come back."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping

from everbrook.client.wire.request import Request


class AsyncAnswer(ABC):
    """An answer, whose body is still to be read. Reading it may raise a `ConnectionBroken`."""

    status_code: int
    headers: Mapping[str, str]
    """The headers, whose names are the same in any case."""
    content: bytes = b""
    """The body, once it was read as a whole."""

    @abstractmethod
    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Give the body as it arrives."""

    @abstractmethod
    async def aclose(self) -> None:
        """Let go of the connection."""

    @abstractmethod
    def interrupt(self) -> None:
        """End the answer for whoever waits for more of it, as if its connection broke."""

    async def aread(self) -> bytes:
        """Read the body as a whole."""
        self.content = b"".join([piece async for piece in self.aiter_bytes()])
        return self.content


class AsyncWire(ABC):
    """Connections, over which requests are sent."""

    @abstractmethod
    async def send(self, request: Request) -> AsyncAnswer:
        """Send a request, or raise a `ConnectionBroken`. Redirects are not followed."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close all connections."""
