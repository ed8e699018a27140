"""A server that two tenants share, with something of each, and what one of them must never see."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.kit.keyring import Keyring
from tests.kit.server_thread import RunningServer, configured
from tests.kit.wire import Answer, Wire, render

SECRET = "5e2f9a71c0d84b36"  # noqa: S105 - it is what the tenants keep from each other
STREAM, BUCKET = "/v1/stream/bob/secret", "/ds/bobs"
ALICE = "read+append+create+delete:/v1/stream/alice admin:/ds/alices"
BOB = "read+append+create+delete:/v1/stream/bob admin:/ds/bobs"
SUBSCRIPTION = f"sub-{SECRET}"


class Tenants:
    """The server, and the `Authorization` headers of those who use it."""

    def __init__(self, server: RunningServer, alice: str, bob: str, root: str) -> None:
        self.server = server
        self.alice, self.bob, self.root = alice, bob, root

    def ask(self, method: str, target: str, body: bytes | None = None, /, **headers: str) -> Answer:
        """Send one request over a connection of its own."""
        with self.server.connect() as wire:
            return wire.request(method, target, body, **headers)

    def raw(self, request: bytes) -> bytes:
        """Send bytes, and give everything that comes back until the server ends the connection."""
        with self.server.connect() as wire:
            return wire.send(request).stop_sending().rest()

    def exchange(self, method: str, target: bytes, authorization: str) -> bytes:
        """Send a request with a target of any bytes, and give everything that comes back."""
        head = render(method, "TARGET", **_headers(authorization)).replace(b"TARGET", target, 1)
        return self.raw(head)

    def fill(self) -> None:
        """Put something of everybody on the server."""
        root = {"authorization": self.root}
        with self.server.connect() as wire:
            for name in ("alice", "bob", "public"):
                wire.create(f"/v1/stream/{name}/secret", body=f"{name}: {SECRET}".encode(), **root)
            for bucket in ("alices", "bobs"):
                assert wire.request("PUT", f"/ds/{bucket}", **root).status == 201
                wire.create(f"/ds/{bucket}/secret", body=f"{bucket}: {SECRET}".encode(), **root)
            for stream in (f"{STREAM}/__ds", f"{BUCKET}/secret"):
                assert _snapshot(wire, stream, self.root).status == 204
            for surface in ("/v1/stream", BUCKET):
                self._subscribe(wire, f"{surface}/__ds/subscriptions/{SUBSCRIPTION}")

    def _subscribe(self, wire: Wire, url: str) -> None:
        body = msgspec.json.encode({"type": "pull-wake", "pattern": "nothing/like/it", "wake_stream": "wakes"})
        answer = wire.request("PUT", url, body, content_type="application/json", authorization=self.root)
        assert answer.status == 201, answer

    def names(self) -> dict[str, int]:
        """Every stream that is not Alice's, and how long it is, as the engine has them."""
        return {name: tail for name, tail in self.all_names().items() if not _is_alices(name)}

    def all_names(self) -> dict[str, int]:
        """Every stream, and how long it is, as the engine has them."""

        def look() -> dict[str, int]:
            found = self.server.engine.listing.living(b"", b"", 10_000)
            return {name.decode(): head.tail if head else -1 for name, head in found}

        return self.server.call(look)


def _is_alices(name: str) -> bool:
    return name.startswith(("/v1/stream/alice/", "/ds/alices/", "subscription")) or name == "/v1/stream/alice"


def _snapshot(wire: Wire, stream: str, authorization: str) -> Answer:
    target = f"{stream}/snapshot/{0:016d}"
    return wire.request("PUT", target, SECRET.encode(), content_type="text/plain", authorization=authorization)


def _headers(authorization: str) -> dict[str, str]:
    return {"authorization": authorization, "connection": "close"} if authorization else {"connection": "close"}


@contextmanager
def sharing(folder: Path, **settings: object) -> Iterator[Tenants]:
    """Start a server that Alice and Bob share."""
    keys = Keyring(folder)
    authorizations = [keys.give(scopes) for scopes in (ALICE, BOB, "admin:/")]
    values = {"auth__api_keys_path": str(keys.path), "auth__public_read": "/v1/stream/public", **settings}
    with RunningServer(configured(**values)) as server:
        tenants = Tenants(server, *authorizations)
        tenants.fill()
        yield tenants
