"""An issuer of tokens: its keys, the claims it signs, and its web server, which can be slow, down, or wrong."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Self

import msgspec

from everbrook.server.auth.jwks import Key, KeySet, parse_key_set
from everbrook.server.auth.key_pair import ALGORITHMS, KeyPair, make_pair
from tests.kit.http_server import AnsweringServer

ISSUER = "https://issuer.example"
AUDIENCE = "everbrook"
SCOPE = "read+append+create:/v1/stream"


def pair_of(algorithm: str = "RS256", kid: str | None = None) -> KeyPair:
    """A key pair that all tests share."""
    return _pair(algorithm, kid or algorithm.lower())


@cache
def _pair(algorithm: str, kid: str) -> KeyPair:
    return make_pair(algorithm, kid)


def claims(**changes: object) -> dict[str, Any]:
    """The claims of a good token, with some changed. None leaves one out."""
    now = int(time.time())
    good = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 600, "scope": SCOPE}
    return {name: value for name, value in (good | changes).items() if value is not None}


def mint(algorithm: str = "RS256", **changes: object) -> str:
    """A token."""
    return pair_of(algorithm).mint(claims(**changes))


def jwks(*pairs: KeyPair) -> bytes:
    """The key set of some pairs."""
    return msgspec.json.encode({"keys": [pair.jwk for pair in pairs]})


def key_set(*pairs: KeyPair, algorithms: Iterable[str] = ALGORITHMS) -> KeySet:
    return parse_key_set(jwks(*(pairs or (pair_of(),))), tuple(algorithms))


class KnownKeys:
    """Keys that are simply there."""

    def __init__(self, keys: KeySet) -> None:
        self.keys = keys
        self.generation = 0
        self.asked = 0

    def find(self, kid: str | None, algorithm: str) -> Key | None:
        self.asked += 1
        return self.keys.find(kid, algorithm)

    async def begin(self) -> None: ...
    def reload(self) -> None: ...
    async def close(self) -> None: ...


class Issuer:
    """A web server that publishes a key set."""

    def __init__(self, *pairs: KeyPair) -> None:
        self.body = jwks(*pairs)
        self.status = 200
        self._speaks = threading.Event()
        self._speaks.set()
        self.headers: dict[str, str] = {}
        self.fetches = 0
        self._server: AnsweringServer | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/jwks.json"

    def publish(self, *pairs: KeyPair) -> None:
        """Rotate."""
        self.body = jwks(*pairs)

    def start(self) -> None:
        """Come up, at the port of before if there was one."""
        self._server = AnsweringServer(("127.0.0.1", self.port), self._handler())
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Accept connections and answer nothing, for as long as the context lasts."""
        self._speaks.clear()
        try:
            yield
        finally:
            self._speaks.set()

    def stop(self) -> None:
        """Go down."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.fetches += 1
                issuer._speaks.wait()
                self.send_response(issuer.status)
                for name, value in issuer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(issuer.body)))
                with suppress(ConnectionError):  # whoever asked did not wait for a silent issuer
                    self.end_headers()
                    self.wfile.write(issuer.body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler
