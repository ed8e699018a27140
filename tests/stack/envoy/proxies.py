"""A real Envoy in front of a real server, which remembers what it was asked."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Self
from urllib.request import urlopen

import httpx2
import jwt

from everbrook.server.auth.key_pair import KeyPair
from everbrook.server.exchange import Reply, Request
from everbrook.stack.envoy import TEST_NAME, Edge, find_envoy, format_config
from tests.kit.server_thread import RunningServer, configured
from tests.kit.wire import Wire

READY_SECS = 120.0
CLIENT_SECS = 120.0
IDLE_SECS = 1.0
SHORT_TIMES = {"server__sse_keepalive_secs": 0.3, "server__long_poll_timeout_secs": 0.5}
"""With an Envoy that gives up a silent stream after `IDLE_SECS`, so that a test can outlast it."""
LONG_TIMES = {"server__sse_keepalive_secs": 3600.0, "server__long_poll_timeout_secs": 3600.0}
"""Nothing but what a test does ends a wait."""

_numbers = count()


class Recorded(RunningServer):
    """A server whose requests can be looked at afterwards."""

    def __init__(self, **values: object) -> None:
        sizes = {"limits__max_memory_bytes": 500_000_000, "limits__max_stream_bytes": 90_000_000}
        super().__init__(configured(**sizes, **values))
        self.requests: list[Request] = []

    def __enter__(self) -> Self:
        super().__enter__()
        handle = self.application.handle

        def recording(request: Request) -> Reply:
            self.requests.append(request)
            return handle(request)

        self.application.handle = recording  # type: ignore[method-assign]
        return self


class Proxy:
    """An Envoy that listens, the server behind it, and the key whose tokens it takes."""

    def __init__(self, edge: Edge, server: Recorded, pair: KeyPair) -> None:
        self.edge = edge
        self.server = server
        self.pair = pair

    @property
    def url(self) -> str:
        return self.edge.url

    def token(self, **claims: object) -> str:
        """Give a token that is good, but for the claims that are given."""
        good = {"sub": "alice", "iss": TEST_NAME, "aud": TEST_NAME, "exp": int(time.time()) + 600}
        kept = {name: value for name, value in (good | claims).items() if value is not None}
        return self.pair.mint(kept)

    def client(self, **options: object) -> httpx2.Client:
        """Give a client with a good token."""
        headers = {"Authorization": f"Bearer {self.token()}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=CLIENT_SECS, **options)  # type: ignore[arg-type]

    def wire(self) -> Wire:
        return Wire(("127.0.0.1", self.edge.port))

    def asked(self) -> list[Request]:
        """Give what has reached the server since this was last looked at."""
        asked, self.server.requests[:] = self.server.requests[:], []
        return asked


@contextmanager
def running(folder: Path, edge: Edge) -> Iterator[None]:
    """Run an Envoy, until the context ends."""
    file = folder / "envoy.yaml"
    file.write_text(format_config(edge))
    command = [find_envoy(), "--config-path", str(file), "--disable-hot-restart", "--log-level", "warning"]
    log = folder / "envoy.log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            _await_ready(process, edge, log)
            yield
        finally:
            process.terminate()


def _await_ready(process: subprocess.Popen[bytes], edge: Edge, log: Path) -> None:
    deadline = time.monotonic() + READY_SECS
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            with urlopen(f"http://127.0.0.1:{edge.admin_port}/ready", timeout=2):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"Envoy was not ready in time: {log.read_text()}")


def new_text_stream(proxy: Proxy) -> str:
    """Create a text stream that no other test uses, and give its path."""
    path = f"/v1/stream/envoy-{next(_numbers)}"
    with proxy.client() as client:
        assert client.put(path, headers={"Content-Type": "text/plain"}).status_code == 201
    proxy.asked()
    return path


def unsigned(token: str) -> str:
    """Give the token without its signature, as if that were allowed."""
    claims = jwt.decode(token, options={"verify_signature": False})
    return jwt.encode(claims, "", algorithm="none")
