# Written by tools/mirror.py from src/everbrook/client/_async/wire.py: change that file, not this one.
"""What sends requests, whichever library that is, and the answers that come back."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

from everbrook.client.wire.request import Request


class Answer(ABC):
    """An answer, whose body is still to be read. Reading it may raise a `ConnectionBroken`."""

    status_code: int
    headers: Mapping[str, str]
    """The headers, whose names are the same in any case."""
    content: bytes = b""
    """The body, once it was read as a whole."""

    @abstractmethod
    def iter_bytes(self) -> Iterator[bytes]:
        """Give the body as it arrives."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection."""

    @abstractmethod
    def interrupt(self) -> None:
        """End the answer for whoever waits for more of it, as if its connection broke."""

    def read(self) -> bytes:
        """Read the body as a whole."""
        self.content = b"".join(list(self.iter_bytes()))
        return self.content


class Wire(ABC):
    """Connections, over which requests are sent."""

    @abstractmethod
    def send(self, request: Request) -> Answer:
        """Send a request, or raise a `ConnectionBroken`. Redirects are not followed."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""
