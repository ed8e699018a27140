"""Signed URLs: the holder of one may read one stream until it expires, without other credentials. Browsers use them.

The signature covers the decoded name of the stream, the time of expiry and the id of the key, and allows only reading.
It is valid for the URLs of the stream, its snapshots and its bootstrap, in every spelling, and for no other. It does
not cover the other parameters (`offset`, `live`, …), so that the holder can read on.
"""

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from everbrook.protocol.errors import TokenExpired, TokenInvalid
from everbrook.protocol.query import parse_parameters
from everbrook.server.auth.key_file import WatchedFile
from everbrook.server.auth.scopes import Grant, Identity, Verb
from everbrook.server.exchange import Request
from everbrook.server.routes import Resource, find_route
from everbrook.server.tuning import AUTH_TUNING, WatchTuning

SOURCE = "signed_url"
SECRET_BYTES = 32
_MARK = b"signature="
_PARAMETERS = {b"signature", b"expires", b"key"}
_DOMAIN = b"everbrook signed url, version 1"
_EXPIRES = re.compile(rb"[1-9][0-9]{0,11}")
_KEY_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_READ = frozenset({Verb.READ})
_SIGNED = {Resource.STREAM, Resource.SNAPSHOT, Resource.SNAPSHOT_AT, Resource.BOOTSTRAP}


class UrlKey(Struct, frozen=True, forbid_unknown_fields=True):
    """A key as it is stored. The server needs the secret itself, so it is not hashed."""

    id: str
    secret: str
    created_at_secs: int

    def __repr__(self) -> str:
        """Show the key's id, not its secret."""
        return f"UrlKey({self.id})"


class UrlKeyFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The file: the key that signs is first, then those whose signatures are still valid."""

    keys: tuple[UrlKey, ...]
    version: int = 1


def parse_file(text: bytes) -> UrlKeyFile:
    """Read a file of keys. Raise a ValueError that says what is wrong without quoting the text."""
    try:
        file = msgspec.json.decode(text, type=UrlKeyFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"it is not a file of keys for URLs: {error}") from None
    if file.version != 1 or not file.keys:
        raise ValueError("it must be of version 1, and have at least one key")
    for key in file.keys:
        if not _KEY_ID.fullmatch(key.id) or len(secret_of(key)) < SECRET_BYTES:
            raise ValueError(f"its key {key.id[:64]!r} is damaged")
    return file


def format_file(file: UrlKeyFile) -> bytes:
    return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"


def make_key(now_secs: int) -> UrlKey:
    return UrlKey(secrets.token_hex(4), secrets.token_urlsafe(SECRET_BYTES), now_secs)


def secret_of(key: UrlKey) -> bytes:
    """Return the bytes to sign with, or raise ValueError if they are damaged."""
    return base64.urlsafe_b64decode(key.secret + "=" * (-len(key.secret) % 4))


def sign(name: bytes, expires_at_secs: int, key: UrlKey) -> str:
    """Return the parameters of a signed URL."""
    expires = b"%d" % expires_at_secs
    signature = _signature(secret_of(key), key.id.encode(), expires, name)
    return f"expires={expires_at_secs}&key={key.id}&signature={signature.decode()}"


def signed_name(path: bytes) -> bytes:
    """Return the name of the stream that a path reads. Raise `TokenInvalid` for other resources."""
    route = find_route(path)
    if route.resource not in _SIGNED:
        raise TokenInvalid("a signed URL is valid only for a stream, its snapshots and its bootstrap")
    return route.name


def is_signed(query: bytes) -> bool:
    """Tell whether a query belongs to a signed URL. A parameter whose name only ends in `signature` does not count."""
    return _MARK in query and (query.startswith(_MARK) or b"&" + _MARK in query)


def carried(request: Request) -> bytes:
    """Return the query for a redirect to another URL of the same stream, so that the signature covers it too."""
    if request.identity is None or request.identity.source != SOURCE:
        return b""
    pairs = (pair for pair in request.query.split(b"&") if pair.partition(b"=")[0] in _PARAMETERS)
    return b"?" + b"&".join(pairs)


class SignedUrls:
    """Verifies signed URLs. The file of keys is read again when it changes."""

    def __init__(
        self,
        path: str,
        now: Callable[[], float] = time.time,
        tuning: WatchTuning = AUTH_TUNING.watch,
        is_equal: Callable[[bytes, bytes], bool] = hmac.compare_digest,
    ) -> None:
        """Read the keys. `is_equal` must compare in constant time."""
        advice = "`everbrook sign --new-key` creates it"
        self._file = WatchedFile(path, _index, setting="auth.url_keys_path", advice=advice, tuning=tuning)
        self._now = now
        self._is_equal = is_equal
        self.reload = self._file.reload

    def identify(self, request: Request) -> Identity:
        """Return the identity of a signed URL, or raise `TokenInvalid` or `TokenExpired`."""
        given = parse_parameters(request.query, _PARAMETERS)
        if given.keys() != _PARAMETERS or not _EXPIRES.fullmatch(given[b"expires"]):
            raise TokenInvalid("a signed URL has the parameters expires, in seconds since 1970, key and signature")
        name, expires = signed_name(request.path), given[b"expires"]
        key_id = given[b"key"]
        secret = self._file.value.get(key_id)
        # An unknown key is compared too, with zeros, so that response times do not reveal which keys exist.
        right = _signature(secret or bytes(SECRET_BYTES), key_id, expires, name)
        if not self._is_equal(right, given[b"signature"]) or secret is None:
            raise TokenInvalid("the signature is not that of this URL, or its key is not in use any more")
        if self._now() >= int(expires):
            raise TokenExpired(f"the URL expired at {int(expires)}, it is {self._now():.0f} now")
        # Many clients may have URLs of this key, so limits must not count them as one client.
        return Identity(key_id.decode(), SOURCE, (Grant(_READ, name),), float(expires), shared=True)


def _index(text: bytes) -> Mapping[bytes, bytes]:
    return {key.id.encode(): secret_of(key) for key in parse_file(text).keys}


def _signature(secret: bytes, key_id: bytes, expires: bytes, name: bytes) -> bytes:
    # The name is last, because only a name may contain a line end: in front it could imitate the other fields.
    message = b"\n".join((_DOMAIN, key_id, expires, name))
    return base64.urlsafe_b64encode(hmac.digest(secret, message, hashlib.sha256)).rstrip(b"=")
