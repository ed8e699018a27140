"""The key set of a server, fetched on demand and cached (§6.5).

The rule: forged requests cause at most one fetch a minute, whatever keys they name. While the server is down, the
cached set stays in use.
"""

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

import msgspec
from msgspec import Struct

from everbrook.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from everbrook.client._async.receiver import AsyncJwks
    from everbrook.client._sync.receiver import Jwks

__all__ = ["AsyncJwks", "Jwks", "KeySet", "KeysUnavailable"]

REFRESH_SECS = 60.0
RETRY_SECS = 5.0
MAX_AGE_SECS = 300.0
TIMEOUT_SECS = 5.0
MAX_SET_BYTES = 256 * 1024
HEADERS = {
    "Accept": "application/jwk-set+json, application/json",
    "Accept-Encoding": "identity",
    "Cache-Control": "no-cache",
}

_KEY_BYTES = 32


class KeysUnavailable(Exception):
    """No key set is cached, and none can be fetched now, so that no signature can be verified."""


class _Jwk(Struct):
    kty: str
    kid: str
    crv: str = ""
    x: str = ""
    use: str = "sig"


class _JwkSet(Struct):
    keys: list[msgspec.Raw]


class KeySet(dict[str, bytes]):
    """Ed25519 public keys by their `kid`. Other keys are ignored."""

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
    """The cached key set, and the decision when to fetch it again. It does no input or output."""

    def __init__(self) -> None:
        self.keys: KeySet | None = None
        self.failure: Exception | None = None
        self._asked_at = float("-inf")
        self._learnt_at = float("-inf")

    def due(self, kid: str, now: float) -> bool:
        """Whether to fetch the key set before a signature under this key is checked."""
        if self.keys is None:
            return now - self._asked_at >= RETRY_SECS
        wanted = kid not in self.keys or now - self._learnt_at >= MAX_AGE_SECS
        return wanted and now - self._asked_at >= REFRESH_SECS

    def asking(self, now: float) -> None:
        """Record that the key set is being fetched."""
        self._asked_at = now

    def learn(self, text: bytes, now: float) -> None:
        """Cache a key set. An invalid one raises ValueError and changes nothing."""
        self.keys = KeySet.decode(text)
        self._learnt_at = now

    def known(self) -> KeySet:
        """Return the cached set; raise KeysUnavailable if none was ever fetched."""
        if self.keys is None:
            raise KeysUnavailable(f"the server's keys could not be fetched: {self.failure}") from self.failure
        return self.keys


def require_bounded(text: bytes) -> None:
    """Refuse a document that is too large for a key set, before all of it is read."""
    if len(text) > MAX_SET_BYTES:
        raise ValueError(f"a key set must have at most {MAX_SET_BYTES} bytes, got more")


def format_base64url(data: bytes) -> str:
    """Write bytes as base64url without padding (RFC 7515 §2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def parse_base64url(text: str) -> bytes:
    """Read what `format_base64url` writes; raise ValueError for anything else.

    Bytes have one encoding: a last letter whose spare bits are not zero would decode to the same bytes, and is refused.
    """
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except ValueError:
        data = None
    if data is None or format_base64url(data) != text:
        raise ValueError(f"must be unpadded base64url, got {text!a}")
    return data


__getattr__, __dir__ = lazy_imports(__name__, {"._async.receiver": "AsyncJwks", "._sync.receiver": "Jwks"})
