"""API keys: `eb_<id>_<secret>`, for programs that get no tokens from an issuer.

The file holds the hash of each key, never the key, so a thief of the file has no keys. A secret has 256 random bits, so
a plain SHA-256 of it can't be inverted. Hashes are compared in constant time, and an unknown key takes as long as a
known one, so that response times reveal nothing.
"""

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping
from functools import partial

import msgspec
from msgspec import Struct

from everbrook.protocol.errors import TokenExpired, TokenInvalid
from everbrook.server.auth.key_file import WatchedFile
from everbrook.server.auth.scopes import Grant, Identity, expand, parse_scopes
from everbrook.server.tuning import AUTH_TUNING, WatchTuning

SOURCE = "api_key"
PREFIX = b"eb_"
ID_CHARACTERS = 12
SECRET_BYTES = 32

# The alphabet has no characters that look alike, so that people copy ids without errors.
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_KEY = re.compile(rb"eb_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")
_ID = re.compile(r"[a-z0-9]{12}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NO_DIGEST = "0" * 64


class ApiKey(Struct, frozen=True, forbid_unknown_fields=True):
    """A key as it is stored."""

    id: str
    sha256: str
    scopes: str
    created_at_secs: int
    expires_at_secs: int | None = None
    note: str = ""


class ApiKeyFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The file. The keys are in the order in which they were created."""

    keys: tuple[ApiKey, ...] = ()
    version: int = 1

    def add(self, key: ApiKey) -> "ApiKeyFile":
        """Return the file with another key."""
        return ApiKeyFile((*self.keys, key))

    def remove(self, key_id: str) -> "ApiKeyFile":
        """Return the file without a key. Raise KeyError if no key has that id."""
        if key_id not in {key.id for key in self.keys}:
            raise KeyError(key_id)
        return ApiKeyFile(tuple(key for key in self.keys if key.id != key_id))


def parse_file(text: bytes) -> ApiKeyFile:
    """Read a file of keys. Raise a ValueError that says what is wrong without quoting the text."""
    try:
        file = msgspec.json.decode(text, type=ApiKeyFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"it is not a file of API keys: {error}") from None
    if file.version != 1:
        raise ValueError(f"it has version {file.version}, and only version 1 is known")
    for key in file.keys:
        if not _ID.fullmatch(key.id) or not _SHA256.fullmatch(key.sha256):
            raise ValueError(f"its key {key.id[:64]!r} is damaged: an id has 12 characters, a sha256 64 digits")
    if len({key.id for key in file.keys}) < len(file.keys):
        raise ValueError("two of its keys have the same id")
    return file


def format_file(file: ApiKeyFile) -> bytes:
    """Write a file of keys, indented for people."""
    return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"


def make_key(scopes: str, now_secs: int, expires_at_secs: int | None = None, note: str = "") -> tuple[str, ApiKey]:
    """Create a key. Return the text for its holder, which is shown only once, and the key as it is stored.

    Raise ValueError for malformed scopes.
    """
    parse_scopes(scopes)
    key_id = "".join(secrets.choice(_ALPHABET) for _ in range(ID_CHARACTERS))
    secret = secrets.token_urlsafe(SECRET_BYTES)
    return f"eb_{key_id}_{secret}", ApiKey(key_id, _digest(secret.encode()), scopes, now_secs, expires_at_secs, note)


class _Known(Struct, frozen=True):
    sha256: str
    identity: Identity


class ApiKeys:
    """The keys in a file, which is read again when it changes."""

    def __init__(
        self,
        path: str,
        default_grants: tuple[Grant, ...] = (),
        now: Callable[[], float] = time.time,
        tuning: WatchTuning = AUTH_TUNING.watch,
        is_equal: Callable[[str, str], bool] = hmac.compare_digest,
    ) -> None:
        """Keys without scopes have the default grants. `is_equal` must compare in constant time."""
        parse = partial(_index, default_grants=default_grants)
        advice = "`everbrook apikey create` creates it"
        self._file = WatchedFile(path, parse, setting="auth.api_keys_path", advice=advice, tuning=tuning)
        self._now = now
        self._is_equal = is_equal
        self.reload = self._file.reload

    def identify(self, key: bytes) -> Identity:
        """Return the identity of a key's holder, or raise `TokenInvalid` or `TokenExpired`."""
        parts = _KEY.fullmatch(key)
        if parts is None:
            raise TokenInvalid("an API key is eb_, 12 characters of an id, _ and 43 characters of a secret")
        known = self._file.value.get(parts[1].decode())
        # An unknown id is compared too, with a digest that no secret has: see the module's docstring.
        if not self._is_equal(_digest(parts[2]), known.sha256 if known else _NO_DIGEST) or known is None:
            raise TokenInvalid("the API key is not one of this server, or was revoked")
        expires_at = known.identity.expires_at_secs
        if expires_at is not None and self._now() >= expires_at:
            raise TokenExpired(f"the API key expired at {expires_at:.0f} (seconds since 1970)")
        return known.identity


def _index(text: bytes, default_grants: tuple[Grant, ...]) -> Mapping[str, _Known]:
    return {
        key.id: _Known(
            key.sha256,
            Identity(key.id, SOURCE, expand(parse_scopes(key.scopes) or default_grants, key.id), key.expires_at_secs),
        )
        for key in parse_file(text).keys
    }


def _digest(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()
