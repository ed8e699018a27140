"""A pull-wake subscription on a real server, as tests of workers use it."""

import time
from collections.abc import Callable
from itertools import count
from typing import Any

import httpx2

from tests.kit.faults.writer import TLS

PATIENCE_SECS = 60.0

_numbers = count()


def eventually(claim: Callable[[], object]) -> bool:
    """Whether a claim becomes true in good time."""
    deadline = time.monotonic() + PATIENCE_SECS
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


class Pulled:
    """A subscription to every stream of a folder of its own, with a wake stream beside it."""

    def __init__(self, root_url: str, *, lease_ttl_ms: int = 30_000) -> None:
        self.root_url = root_url
        self.id = f"sub-{next(_numbers)}"
        self.folder = f"work-{self.id}"
        self.wake_stream = f"wake-{self.id}"
        self._client = httpx2.Client(base_url=root_url, verify=TLS)
        self.send("PUT", self.wake_stream, content_type="application/json")
        self.lease_ttl_ms = lease_ttl_ms
        self.subscribe()

    @property
    def place(self) -> tuple[str, str, str]:
        """The first arguments of a worker."""
        return self.root_url, self.id, self.wake_stream

    def subscribe(self) -> None:
        config = {
            "type": "pull-wake",
            "pattern": f"{self.folder}/**",
            "wake_stream": self.wake_stream,
            "lease_ttl_ms": self.lease_ttl_ms,
        }
        self._client.put(self.url, json=config).raise_for_status()

    @property
    def url(self) -> str:
        return f"{self.root_url}/__ds/subscriptions/{self.id}"

    def send(
        self, method: str, path: str, body: bytes = b"", content_type: str | None = None, **headers: str
    ) -> httpx2.Response:
        """Do something to a stream."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named |= {"Content-Type": content_type} if content_type else {}
        return self._client.request(method, f"{self.root_url}/{path}", content=body, headers=named).raise_for_status()

    def create(self, name: str, content_type: str = "application/json") -> str:
        """Create a stream that the subscription matches. Gives its path."""
        self.send("PUT", f"{self.folder}/{name}", content_type=content_type)
        return f"{self.folder}/{name}"

    def append(self, name: str, body: bytes, content_type: str = "application/json") -> None:
        self.send("POST", f"{self.folder}/{name}", body, content_type)

    def acked(self) -> dict[str, str]:
        """The acked offset of each stream."""
        described = self._client.get(self.url).raise_for_status().json()
        return {stream["path"]: stream["acked_offset"] for stream in described["streams"]}

    def claim(self) -> Any:  # noqa: ANN401 - whatever the server sent
        """Claim as another worker would. Gives the body of the answer."""
        return self._client.post(f"{self.url}/claim", json={"worker": "the test"}).json()

    def unsubscribe(self) -> None:
        self._client.delete(self.url).raise_for_status()

    def close(self) -> None:
        self._client.close()
