"""The secrets of webhooks: the keys that sign them, and the tokens for reports (§6.5, §7, §12.9).

They are made when a store first needs them and stored like a stream, so that signatures and tokens stay valid over a
restart. A signature is Ed25519 over `<timestamp>.<body>`. A replaced key stays published for a time, without its
private half, so that receivers can verify what was signed with it. A token proves for which subscription, generation
and wake it was issued. It does not prove that the wake is still current: the subscription decides that. The time and
new secrets are arguments.
"""

import base64
import hashlib
import secrets
from base64 import b64decode, b64encode
from functools import cached_property
from typing import Literal, Self

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Struct

from everbrook.engine.engine import Engine
from everbrook.engine.records import SECRET_RECORDS
from everbrook.protocol.commands import Append, Create
from everbrook.protocol.content_type import JSON
from everbrook.protocol.errors import TokenExpired, TokenInvalid

KEY_BYTES = 32


ALGORITHM = "HS256"
SECRET_BYTES = 32
MAX_TOKEN_BYTES = 4096
# The library would compare times with the clock of the machine. Here the time is an argument, so `check` does that.
_SIGNATURE_ONLY: jwt.types.Options = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}
RECORD = SECRET_RECORDS + b"webhooks"


class Jwk(Struct, frozen=True):
    """A public key as it is published (RFC 8037)."""

    kty: Literal["OKP"]
    crv: Literal["Ed25519"]
    kid: str
    use: Literal["sig"]
    alg: Literal["EdDSA"]
    x: str


class JwkSet(Struct, frozen=True):
    """The body of `jwks.json`."""

    keys: list[Jwk]


class InvalidKeyRing(ValueError):
    """The stored key ring is damaged."""


class SigningKey:
    """A private key. Its `repr` shows only its id."""

    def __init__(self, private: bytes) -> None:
        """`private` are 32 secret bytes, from a cryptographic source of randomness or from storage."""
        if len(private) != KEY_BYTES:
            raise ValueError(f"an Ed25519 private key has {KEY_BYTES} bytes, got {len(private)}")
        self.private = private
        self._key = Ed25519PrivateKey.from_private_bytes(private)

    def __repr__(self) -> str:
        """Show the key's id, not the private half."""
        return f"SigningKey({self.kid})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SigningKey) and other.private == self.private

    def __hash__(self) -> int:
        return hash(self.public)

    @cached_property
    def public(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    @cached_property
    def kid(self) -> str:
        return format_kid(self.public)

    def jwk(self) -> Jwk:
        return format_jwk(self.public)

    def sign(self, body: bytes, now_secs: int) -> str:
        """Return the value of `Webhook-Signature` for a body (§7.1)."""
        signature = self._key.sign(b"%d.%b" % (now_secs, body))
        return f"t={now_secs},kid={self.kid},ed25519={_base64url(signature)}"


class RetiredKey(Struct, frozen=True):
    """The public half of a key that has been replaced."""

    public: bytes
    published_until_secs: int


class KeyRing(Struct, frozen=True):
    """The key that signs, and the retired ones, the newest first."""

    active: SigningKey
    retired: tuple[RetiredKey, ...] = ()

    def rotate(self, now_secs: int, private: bytes, keep_secs: int) -> "KeyRing":
        """Return a ring that signs with a new key. The old one stays published for `keep_secs`; expired ones go.

        `keep_secs` must cover the replay window of receivers and the longest time that a delivery may take.
        """
        new = SigningKey(private)
        if new.kid in {key.kid for key in self.jwks(now_secs).keys}:
            raise ValueError(f"a rotation needs a new key, got {new.kid}, which is in use already")
        old = RetiredKey(self.active.public, now_secs + keep_secs)
        return KeyRing(new, (old, *self._published(now_secs)))

    def jwks(self, now_secs: int) -> JwkSet:
        """Return the keys that a receiver may need (§6.5), the active one first."""
        return JwkSet([self.active.jwk(), *(format_jwk(key.public) for key in self._published(now_secs))])

    def _published(self, now_secs: int) -> tuple[RetiredKey, ...]:
        return tuple(key for key in self.retired if now_secs < key.published_until_secs)

    def encode(self) -> bytes:
        """Write the ring with its secrets, as JSON to be stored."""
        return msgspec.json.encode(_StoredRing(self.active.private, self.retired))

    @classmethod
    def decode(cls, stored: bytes) -> Self:
        """Read what `encode` wrote, or raise `InvalidKeyRing`."""
        try:
            ring = msgspec.json.decode(stored, type=_StoredRing)
            for key in ring.retired:
                Ed25519PublicKey.from_public_bytes(key.public)
            return cls(SigningKey(ring.active), ring.retired)
        except ValueError as error:
            # The stored text is not shown: it contains a secret, and messages are logged.
            raise InvalidKeyRing(f"the stored signing keys are damaged: {error}") from None


class _StoredRing(Struct, frozen=True, forbid_unknown_fields=True):
    active: bytes
    retired: tuple[RetiredKey, ...]
    version: Literal[1] = 1


def format_kid(public: bytes) -> str:
    """Name a key by its thumbprint (RFC 7638)."""
    members = b'{"crv":"Ed25519","kty":"OKP","x":"%b"}' % _base64url(public).encode()
    return "ds_" + _base64url(hashlib.sha256(members).digest())


def format_jwk(public: bytes) -> Jwk:
    """Write a public key as it is published."""
    return Jwk("OKP", "Ed25519", format_kid(public), "sig", "EdDSA", _base64url(public))


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Grant(Struct, frozen=True):
    """What a token was issued for."""

    subscription: str
    generation: int
    wake_id: str
    expires_at_secs: int


class _Claims(Struct, frozen=True):
    sub: str
    gen: int
    wake: str
    exp: int


class Tokens:
    """Issues and checks tokens with one secret."""

    def __init__(self, secret: bytes) -> None:
        """`secret` has at least 32 bytes, from a cryptographic source of randomness or from storage."""
        if len(secret) < SECRET_BYTES:
            raise ValueError(f"a secret for tokens has at least {SECRET_BYTES} bytes, got {len(secret)}")
        self._secret = secret

    def issue(self, subscription: str, generation: int, wake_id: str, expires_at_secs: int) -> str:
        """Return a token for one wake. `subscription` is a name that no other subscription has or will have."""
        claims = _Claims(subscription, generation, wake_id, expires_at_secs)
        return jwt.encode(msgspec.to_builtins(claims), self._secret, ALGORITHM)

    def check(self, token: str, subscription: str, now_secs: int) -> Grant:
        """Return what a token was issued for, or raise TokenInvalid or TokenExpired."""
        grant = self.read(token)
        if grant.subscription != subscription:
            raise TokenInvalid("the token is for another subscription")
        if now_secs >= (expires_at := grant.expires_at_secs):
            raise TokenExpired(f"the token expired at {expires_at}, it is {now_secs} now (seconds since 1970)")
        return grant

    def read(self, token: str) -> Grant:
        """Return what a token was issued for, even if it has expired, or raise TokenInvalid."""
        if len(token) > MAX_TOKEN_BYTES:
            raise TokenInvalid(f"a token has at most {MAX_TOKEN_BYTES} characters, got {len(token)}")
        try:
            # The algorithm is fixed, so a token that names another one, or `none`, is refused.
            payload = jwt.decode_complete(token, self._secret, [ALGORITHM], options=_SIGNATURE_ONLY)["payload"]
            claims = msgspec.convert(payload, _Claims)
        except (jwt.PyJWTError, msgspec.ValidationError, ValueError, RecursionError):
            raise TokenInvalid("the token was not issued by this server") from None
        return Grant(claims.sub, claims.gen, claims.wake, claims.exp)


class Stored(Struct):
    """The secrets, as they are stored."""

    ring: msgspec.Raw
    token_secret: str


class Secrets:
    """The secrets of a server. The last record of their stream is valid."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        stored = self._load()
        if stored is None:
            self._token_secret = secrets.token_bytes(SECRET_BYTES)
            self.ring = KeyRing(SigningKey(secrets.token_bytes(KEY_BYTES)))
            engine.execute(
                Create(RECORD, engine.clock.now(), engine.new_incarnation(), JSON, body=self._encode(self.ring))
            )
        else:
            self._token_secret = b64decode(stored.token_secret)
            self.ring = KeyRing.decode(bytes(stored.ring))
        self.tokens = Tokens(self._token_secret)

    def _load(self) -> Stored | None:
        last = None
        for body in self._engine.readers.read_all(RECORD):
            last = msgspec.json.decode(body, type=list[Stored])[-1]
        return last

    def _encode(self, ring: KeyRing) -> bytes:
        return msgspec.json.encode(Stored(msgspec.Raw(ring.encode()), b64encode(self._token_secret).decode()))

    def rotate(self, keep_secs: int) -> str:
        """Sign with a new key as soon as it is durable. Return its id."""
        engine, now = self._engine, self._engine.clock.now()
        ring = self.ring.rotate(now // 1000, secrets.token_bytes(KEY_BYTES), keep_secs)
        engine.execute(Append(RECORD, now, JSON, self._encode(ring)))
        # A key that a crash could lose must not sign: receivers could not verify the signature afterwards.
        engine.when_durable(engine.last_change, lambda failure: None if failure else self._take(ring))
        return ring.active.kid

    def _take(self, ring: KeyRing) -> None:
        self.ring = ring
