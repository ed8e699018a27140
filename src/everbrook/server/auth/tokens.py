"""Tokens (JWT, RFC 7519) that an issuer has signed: the holder of one is its subject, until it expires.

Nothing in a token is trusted before its signature is verified with a configured key, and a token can't name the place
of a key (`jku`, `x5u`, `jwk` are not read). A verified token is cached by its hash until it expires, so that a busy
producer costs one verification, not one per request. Verifying a signature is the one expensive operation that a client
without credentials can cause, so bad signatures are rate-limited (429).
"""

import hashlib
import json
import time
from collections.abc import Callable, Hashable
from math import ceil
from time import monotonic
from typing import Any, NoReturn, TypeVar

import jwt
import msgspec
from jwt.utils import base64url_decode
from msgspec import Struct

from everbrook.protocol.errors import TokenExpired, TokenInvalid, TooManyRequests, quoted
from everbrook.server.auth.issuer import Keys
from everbrook.server.auth.scopes import Grant, Identity, expand, parse_claimed
from everbrook.server.limits.rates import Rate
from everbrook.server.tuning import AUTH_TUNING, GuessTuning, TokenTuning

_ALL = ""


SOURCE = "token"
MAX_TOKEN_BYTES = 8192
MAX_KID_CHARACTERS = 256
MAX_SUBJECT_CHARACTERS = 256
MAX_TIME_SECS = 2**53
T = TypeVar("T")
_SEGMENTS = 3
_JWS = jwt.PyJWS()


class BadSignatures:
    """Limits the rate of bad signatures, by client and in all.

    When there are too many in all, only clients that have sent bad ones themselves are refused. Otherwise an attacker
    with many addresses could lock all other clients out.
    """

    def __init__(self, tuning: GuessTuning, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._by_whom = Rate(tuning.per_sec, tuning.burst_secs)
        self._in_all = Rate(tuning.all_per_sec, tuning.burst_secs)
        self._senders = Rate(1 / tuning.remembered_secs, 0.0)

    def require_few(self, whose: Hashable) -> None:
        """Refuse to verify another signature of a client that has sent too many bad ones."""
        now = self._clock()
        wait_secs = self._by_whom.wait_secs(whose, now)
        if self._senders.wait_secs(whose, now):
            wait_secs = max(wait_secs, self._in_all.wait_secs(_ALL, now))
        if wait_secs > 0:
            wait = ceil(wait_secs)
            raise TooManyRequests(
                f"too many tokens with bad signatures came from this address; try again in {wait} s", wait_secs=wait
            )

    def note(self, whose: Hashable) -> None:
        """Count a bad signature."""
        now = self._clock()
        self._by_whom.draw(whose, 1, now)
        self._in_all.draw(_ALL, 1, now)
        if not self._senders.wait_secs(whose, now):
            self._senders.draw(whose, 1, now)


class Expectation(Struct, frozen=True):
    """What a token must say. An `audience` of None is not checked."""

    issuer: str
    audience: str | None
    algorithms: tuple[str, ...]
    leeway_secs: float = 0.0
    scope_claims: tuple[str, ...] = ("scope", "scopes", "permissions")
    default_grants: tuple[Grant, ...] = ()


class _Header(Struct, frozen=True):
    alg: str
    kid: str | None = None


class _Claims(Struct, frozen=True):
    sub: str
    exp: int | float
    iss: str
    aud: str | list[str] = []
    nbf: int | float = 0


class BearerTokens:
    """Verifies tokens, and remembers those that are valid."""

    def __init__(
        self,
        keys: Keys,
        expected: Expectation,
        now: Callable[[], float] = time.time,
        tuning: TokenTuning = AUTH_TUNING.tokens,
        remembered: dict[bytes, Identity] | None = None,
    ) -> None:
        """Remember verified tokens in `remembered`, by their hash."""
        self._keys = keys
        self._expected = expected
        self._now = now
        self._bad_signatures = BadSignatures(tuning.guesses)
        self._max_remembered = tuning.max_remembered
        self._remembered = {} if remembered is None else remembered
        self._generation = keys.generation

    def identify(self, token: bytes, whose: Hashable = None) -> Identity:
        """Return the identity of a token's holder. Raise `TokenInvalid`, `TokenExpired`, or `Unavailable`.

        `Unavailable` means that its key may be new. `whose` is the key of the client that sent the token: a client that
        has sent too many bad ones is refused (`TooManyRequests`).
        """
        if len(token) > MAX_TOKEN_BYTES:
            raise TokenInvalid(f"a token has at most {MAX_TOKEN_BYTES} bytes, got {len(token)}")
        generation = self._keys.generation
        if generation != self._generation:
            # The key that verified a cached token may be gone from the set.
            self._remembered.clear()
            self._generation = generation
        # The hash is the key of the cache, so that the cache contains no usable tokens.
        digest = hashlib.sha256(token).digest()
        known = self._remembered.get(digest)
        if known is None:
            return self._remember(digest, self._verify(token, whose))
        if known.expires_at_secs is not None and self._now() >= known.expires_at_secs:
            del self._remembered[digest]
            raise self._expired(known.expires_at_secs - self._expected.leeway_secs)
        return known

    def _remember(self, digest: bytes, identity: Identity) -> Identity:
        if len(self._remembered) >= self._max_remembered:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[digest] = identity
        return identity

    def _verify(self, token: bytes, whose: Hashable) -> Identity:
        # The cheap checks come first: they need neither a key nor an issuer.
        header, payload = _split(token)
        claims = _convert(payload, _Claims, "claims")
        self._check_claims(claims)
        self._check_signature(token, _convert(header, _Header, "header"), whose)
        return Identity(claims.sub, SOURCE, self._grants(payload, claims.sub), claims.exp + self._expected.leeway_secs)

    def _check_signature(self, token: bytes, header: _Header, whose: Hashable) -> None:
        allowed = self._expected.algorithms
        if header.alg not in allowed:
            _refuse(f"must be signed with one of {', '.join(allowed)}, got {_shown(header.alg)}")
        if header.kid is not None and len(header.kid) > MAX_KID_CHARACTERS:
            _refuse(f"has a kid of {len(header.kid)} characters, more than {MAX_KID_CHARACTERS}")
        key = self._keys.find(header.kid, header.alg)
        if key is None:
            named = "names no key" if header.kid is None else f"names the key {_shown(header.kid)}"
            _refuse(f"{named}, and the issuer has no such key for {header.alg}")
        # The limit comes right before the expensive step, so that it counts nothing else.
        self._bad_signatures.require_few(whose)
        try:
            # The algorithm comes from the key, so that a token can't choose a weaker one.
            _JWS.decode(token, key.jwk, algorithms=[key.algorithm])
        except (jwt.PyJWTError, ValueError, TypeError):
            self._bad_signatures.note(whose)
            _refuse("has a signature that is not its issuer's")

    def _check_claims(self, claims: _Claims) -> None:
        expected, now = self._expected, self._now()
        if claims.iss != expected.issuer:
            _refuse(f"must have the issuer {_shown(expected.issuer)}, got {_shown(claims.iss)}")
        audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud
        if expected.audience is not None and expected.audience not in audiences:
            got = ", ".join(map(_shown, audiences[:3])) or "none"
            _refuse(f"must have the audience {_shown(expected.audience)}, got {got}")
        if not 0 <= claims.exp < MAX_TIME_SECS:
            _refuse("must have an exp in seconds since 1970")
        if now >= claims.exp + expected.leeway_secs:
            raise self._expired(claims.exp)
        if not abs(claims.nbf) < MAX_TIME_SECS:
            _refuse("must have an nbf in seconds since 1970, if it has one")
        if now < claims.nbf - expected.leeway_secs:
            _refuse(f"is not valid before {claims.nbf:.0f}, it is {now:.0f} now (seconds since 1970)")
        if not claims.sub.isprintable() or not 0 < len(claims.sub) <= MAX_SUBJECT_CHARACTERS:
            _refuse(f"must have a sub of 1 to {MAX_SUBJECT_CHARACTERS} printable characters")

    def _expired(self, exp: float) -> TokenExpired:
        return TokenExpired(f"the token expired at {exp:.0f}, it is {self._now():.0f} now (seconds since 1970)")

    def _grants(self, payload: dict[str, Any], subject: str) -> tuple[Grant, ...]:
        """Read the scopes of a token. One that has the claim, but no scope of ours in it, has no rights."""
        name = next((name for name in self._expected.scope_claims if name in payload), None)
        if name is None:
            return expand(self._expected.default_grants, subject)
        claimed = payload[name] or []
        words = [claimed] if isinstance(claimed, str) else claimed
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            _refuse("must have its scopes as a text or a list of texts")
        return parse_claimed(words)


def _split(token: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    segments = token.split(b".")
    if len(segments) != _SEGMENTS:
        _refuse(f"must be {_SEGMENTS} parts with dots between them, got {len(segments)}")
    header, payload = (_parse_object(segment) for segment in segments[:2])
    if "crit" in header:
        _refuse("requires extensions (crit), and the server supports none")
    return header, payload


def _parse_object(segment: bytes) -> dict[str, Any]:
    """Read a part of a token. Duplicate names are refused, because two parsers could read them differently."""
    try:
        found = json.loads(base64url_decode(segment), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        _refuse("must be JSON in base64url, each name once")
    if not isinstance(found, dict):
        _refuse("must consist of JSON objects")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is repeated")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _convert(document: dict[str, Any], kind: type[T], what: str) -> T:
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        _refuse(f"has wrong {what}: {error}")
    except ValueError:
        _refuse(f"has {what} with half of a surrogate pair, which is not a character")


def _shown(text: str) -> str:
    return quoted(text.encode("utf-8", "backslashreplace"))


def _refuse(reason: str) -> NoReturn:
    raise TokenInvalid(f"the token {reason}")
