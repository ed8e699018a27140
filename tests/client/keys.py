"""A server's keys as the tests have them, signing without any code of ours, and the places they are fetched from."""

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from threading import Thread

import httpx2
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.kit.http_server import AnsweringServer

URL = "https://server.example/v1/stream/__ds/jwks.json"
NOW = 1_778_324_210.0
BODY = b'{"subscription_id":"sub-1","wake_id":"w_1"}'


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Key:
    """A signing key of the server."""

    def __init__(self, kid: str, seed: int = 1) -> None:
        self.kid = kid
        self._private = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)

    def jwk(self, **changes: object) -> dict[str, object]:
        x = base64url(self._private.public_key().public_bytes_raw())
        return {"kty": "OKP", "crv": "Ed25519", "kid": self.kid, "use": "sig", "alg": "EdDSA", "x": x} | changes

    def signature(self, body: bytes, timestamp: float) -> str:
        return base64url(self._private.sign(f"{int(timestamp)}.".encode() + body))

    def header(self, body: bytes = BODY, timestamp: float = NOW) -> str:
        return f"t={int(timestamp)},kid={self.kid},ed25519={self.signature(body, timestamp)}"


KEY = Key("ds_one", 1)
OTHER = Key("ds_two", 2)


def jwks(*keys: Key) -> dict[str, object]:
    return {"keys": [key.jwk() for key in keys]}


class Publisher:
    """What is at the URL of a key set: a document, a status, or a failure to connect. It counts who asks."""

    def __init__(self, *keys: Key) -> None:
        self.document: object = jwks(*keys)
        self.status = 200
        self.down = False
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        if self.down:
            raise httpx2.ConnectError("nobody is there")
        content = self.document if isinstance(self.document, bytes) else msgspec.json.encode(self.document)
        return httpx2.Response(self.status, stream=httpx2.ByteStream(content))


@contextmanager
def published(document: Callable[[], bytes]) -> Iterator[str]:
    """Serve a key set on a socket, and give its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = document()
            self.send_response(200)
            self.send_header("Content-Type", "application/jwk-set+json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with AnsweringServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/jwks.json"
        finally:
            server.shutdown()
            thread.join()
