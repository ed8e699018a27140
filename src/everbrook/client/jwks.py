"""The key set of a server, fetched when it is needed and kept (§6.5).

The rule: a stranger's requests cause at most one fetch a minute, whatever keys they name; and a server that is down
takes nothing away: the set that is known goes on being used.
"""

import threading
from asyncio import Lock
from collections.abc import Mapping
from typing import Self

import httpx2
import msgspec
from msgspec import Struct

from everbrook.client.base64url import parse_base64url
from everbrook.client.wire.httpx import tls_context

REFRESH_SECS = 60.0
RETRY_SECS = 5.0
MAX_AGE_SECS = 300.0
TIMEOUT_SECS = 5.0
MAX_SET_BYTES = 256 * 1024

_KEY_BYTES = 32
_HEADERS = {
    "Accept": "application/jwk-set+json, application/json",
    "Accept-Encoding": "identity",
    "Cache-Control": "no-cache",
}


class KeysUnavailable(Exception):
    """No key set was ever fetched, and none can be fetched now: nothing can be verified."""


class _Jwk(Struct):
    kty: str
    kid: str
    crv: str = ""
    x: str = ""
    use: str = "sig"


class _JwkSet(Struct):
    keys: list[msgspec.Raw]


class KeySet(dict[str, bytes]):
    """Ed25519 public keys by their `kid`. Keys of other kinds are passed over."""

    @classmethod
    def parse(cls, document: Mapping[str, object]) -> Self:
        """Read a key set from parsed JSON, or raise ValueError."""
        return cls.decode(msgspec.json.encode(document))

    @classmethod
    def decode(cls, text: bytes) -> Self:
        """Read a key set from JSON, or raise ValueError."""
        try:
            listed = msgspec.json.decode(text, type=_JwkSet).keys
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"a key set must be a JSON object with a list of keys: {error}") from None
        found = cls()
        for entry in listed:
            found.update(_parse_key(entry))
        return found


def _parse_key(entry: msgspec.Raw) -> Mapping[str, bytes]:
    try:
        key = msgspec.json.decode(entry, type=_Jwk)
        public = parse_base64url(key.x)
    except (ValueError, RecursionError):
        return {}
    usable = (key.kty, key.crv, key.use) == ("OKP", "Ed25519", "sig") and len(public) == _KEY_BYTES
    return {key.kid: public} if usable else {}


class KnownKeys:
    """What is known of a server's keys, and whether it is time to ask again. It fetches nothing itself."""

    def __init__(self) -> None:
        self.keys: KeySet | None = None
        self.failure: Exception | None = None
        self._asked_at = float("-inf")
        self._learnt_at = float("-inf")

    def due(self, kid: str, now: float) -> bool:
        """Whether to ask the server before a signature under this key is judged."""
        if self.keys is None:
            return now - self._asked_at >= RETRY_SECS
        wanted = kid not in self.keys or now - self._learnt_at >= MAX_AGE_SECS
        return wanted and now - self._asked_at >= REFRESH_SECS

    def asking(self, now: float) -> None:
        """Note that the server is being asked."""
        self._asked_at = now

    def learn(self, text: bytes, now: float) -> None:
        """Take a key set in. One that cannot be read changes nothing."""
        self.keys = KeySet.decode(text)
        self._learnt_at = now

    def known(self) -> KeySet:
        """Give the newest set that was ever learnt."""
        if self.keys is None:
            raise KeysUnavailable(f"the server's keys could not be fetched: {self.failure}") from self.failure
        return self.keys


class Jwks:
    """The key set at a URL, for threads."""

    def __init__(self, url: str, client: httpx2.Client | None = None) -> None:
        """Fetch with `client`, which stays its owner's, or with one of its own."""
        self._url = url
        self._client = client
        self._known = KnownKeys()
        self._lock = threading.Lock()

    def knowing(self, kid: str, now: float) -> KeySet:
        """Give the key set, after asking the server again where that may help."""
        with self._lock:
            if self._known.due(kid, now):
                self._refresh(now)
            return self._known.known()

    def _refresh(self, now: float) -> None:
        self._known.asking(now)
        try:
            if self._client is not None:
                self._known.learn(self._fetch(self._client), now)
            else:
                with httpx2.Client(verify=tls_context()) as client:
                    self._known.learn(self._fetch(client), now)
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            self._known.failure = error

    def _fetch(self, client: httpx2.Client) -> bytes:
        with client.stream("GET", self._url, headers=_HEADERS, timeout=TIMEOUT_SECS) as response:
            response.raise_for_status()
            read = b""
            for chunk in response.iter_raw():
                read = _bounded(read + chunk)
            return read


class AsyncJwks:
    """The key set at a URL, for an event loop."""

    def __init__(self, url: str, client: httpx2.AsyncClient | None = None) -> None:
        """Fetch with `client`, which stays its owner's, or with one of its own."""
        self._url = url
        self._client = client
        self._known = KnownKeys()
        self._lock = Lock()

    async def knowing(self, kid: str, now: float) -> KeySet:
        """Give the key set, after asking the server again where that may help."""
        async with self._lock:
            if self._known.due(kid, now):
                await self._refresh(now)
            return self._known.known()

    async def _refresh(self, now: float) -> None:
        self._known.asking(now)
        try:
            if self._client is not None:
                self._known.learn(await self._fetch(self._client), now)
            else:
                async with httpx2.AsyncClient(verify=tls_context()) as client:
                    self._known.learn(await self._fetch(client), now)
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            self._known.failure = error

    async def _fetch(self, client: httpx2.AsyncClient) -> bytes:
        async with client.stream("GET", self._url, headers=_HEADERS, timeout=TIMEOUT_SECS) as response:
            response.raise_for_status()
            read = b""
            async for chunk in response.aiter_raw():
                read = _bounded(read + chunk)
            return read


def _bounded(text: bytes) -> bytes:
    if len(text) > MAX_SET_BYTES:
        raise ValueError(f"a key set has at most {MAX_SET_BYTES} bytes")
    return text
