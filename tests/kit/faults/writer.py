"""Somebody else at a stream: plain requests without our client, from a thread of their own where that is asked for.

What the client is to read is written, and what it wrote is read, by something that shares no code with it.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Self

import httpx2

TIMEOUT_SECS = 60.0
TLS = httpx2.create_ssl_context()
"""Loaded once: that takes longer than everything else about a client."""


class Writer:
    """A stream of its own on a server."""

    def __init__(self, server_url: str, name: str) -> None:
        self.name = name
        self.url = f"{server_url}/v1/stream/{name}"
        self._content_type = ""
        self._http = httpx2.Client(timeout=TIMEOUT_SECS, verify=TLS)
        self._threads: list[threading.Thread] = []
        self._errors: list[Exception] = []

    def send(self, method: str, body: bytes | None = None, **headers: str) -> httpx2.Response:
        """Do something to the stream."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        typed = {"Content-Type": self._content_type} if body is not None or method == "PUT" else {}
        return self._http.request(method, self.url, content=body, headers=typed | named).raise_for_status()

    def create(self, content_type: str = "text/plain", *bodies: bytes) -> Self:
        """Create the stream, and append to it."""
        self._content_type = content_type
        self.send("PUT")
        return self.append(*bodies)

    def append(self, *bodies: bytes) -> Self:
        for body in bodies:
            self.send("POST", body)
        return self

    def produce(self, body: bytes, producer_id: str, epoch: int, seq: int) -> None:
        """Append as a producer."""
        self.send("POST", body, Producer_Id=producer_id, Producer_Epoch=str(epoch), Producer_Seq=str(seq))

    def close(self) -> Self:
        """End the stream."""
        self.send("POST", Stream_Closed="true")
        return self

    def later(
        self,
        *bodies: bytes,
        close: bool = False,
        pause_secs: float = 0.05,
        once: Callable[[], object] = lambda: True,
    ) -> Self:
        """Append from another thread, `once` something holds, with a pause before each, while the test goes on."""

        def work() -> None:
            try:
                deadline = time.monotonic() + TIMEOUT_SECS
                while not once() and time.monotonic() < deadline:
                    time.sleep(0.005)
                for body in bodies:
                    time.sleep(pause_secs)
                    self.append(body)
                if close:
                    time.sleep(pause_secs)
                    self.close()
            except httpx2.HTTPError as error:
                self._errors.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self._threads.append(thread)
        return self

    @property
    def tail(self) -> str:
        return self.send("HEAD").headers["Stream-Next-Offset"]

    def content(self) -> bytes:
        """Everything in the stream, which has to fit in one page."""
        answer = self.send("GET")
        assert "Stream-Up-To-Date" in answer.headers
        return answer.content

    def messages(self) -> Any:  # noqa: ANN401 - whatever JSON says
        """Everything in the JSON stream."""
        return self.send("GET").json()

    def leave(self) -> None:
        """Wait for what was begun, and let go of the server."""
        for thread in self._threads:
            thread.join()
        self._http.close()
        assert not self._errors, self._errors
