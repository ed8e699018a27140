"""Signatures of webhooks: Ed25519 over `<timestamp>.<body>`, and the keys that are published for it (§6.5, §7.1).

The rule: what was ever signed can be verified for as long as a receiver may accept it. So a key that is replaced stays
published for a time, without its private half. The time and new secrets are arguments.
"""

import base64
import hashlib
from functools import cached_property
from typing import Literal, Self

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Struct

KEY_BYTES = 32


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
    """What is stored is no ring of keys."""


class SigningKey:
    """A private key. It shows its public half only."""

    def __init__(self, private: bytes) -> None:
        """Take the 32 secret bytes, from a source of randomness for secrets or from storage."""
        if len(private) != KEY_BYTES:
            raise ValueError(f"an Ed25519 private key has {KEY_BYTES} bytes, got {len(private)}")
        self.private = private
        self._key = Ed25519PrivateKey.from_private_bytes(private)

    def __repr__(self) -> str:
        """Name the key without giving it away."""
        return f"SigningKey({self.kid})"

    def __eq__(self, other: object) -> bool:
        """Whether it is the same key."""
        return isinstance(other, SigningKey) and other.private == self.private

    def __hash__(self) -> int:
        """Hash by the public half."""
        return hash(self.public)

    @cached_property
    def public(self) -> bytes:
        """The public half."""
        return self._key.public_key().public_bytes_raw()

    @cached_property
    def kid(self) -> str:
        """The name of the key."""
        return format_kid(self.public)

    def jwk(self) -> Jwk:
        """Give the public half as it is published."""
        return format_jwk(self.public)

    def sign(self, body: bytes, now_secs: int) -> str:
        """Give the value of `Webhook-Signature` for a body (§7.1)."""
        signature = self._key.sign(b"%d.%b" % (now_secs, body))
        return f"t={now_secs},kid={self.kid},ed25519={_base64url(signature)}"


class RetiredKey(Struct, frozen=True):
    """The public half of a key that signs no more."""

    public: bytes
    published_until_secs: int


class KeyRing(Struct, frozen=True):
    """The key that signs, and those that signed before it, newest first."""

    active: SigningKey
    retired: tuple[RetiredKey, ...] = ()

    def rotate(self, now_secs: int, private: bytes, keep_secs: int) -> "KeyRing":
        """Sign with a new key from now on; keep the old one published for `keep_secs`, and drop what is past its time.

        `keep_secs` covers the replay window of receivers and the longest that a delivery may take.
        """
        new = SigningKey(private)
        if new.kid in {key.kid for key in self.jwks(now_secs).keys}:
            raise ValueError(f"a rotation needs a new key, got {new.kid} again")
        old = RetiredKey(self.active.public, now_secs + keep_secs)
        return KeyRing(new, (old, *self._published(now_secs)))

    def jwks(self, now_secs: int) -> JwkSet:
        """Give the keys that a receiver may need (§6.5), the one that signs first."""
        return JwkSet([self.active.jwk(), *(format_jwk(key.public) for key in self._published(now_secs))])

    def _published(self, now_secs: int) -> tuple[RetiredKey, ...]:
        return tuple(key for key in self.retired if now_secs < key.published_until_secs)

    def encode(self) -> bytes:
        """Write the ring, secrets included, as JSON to be stored."""
        return msgspec.json.encode(_StoredRing(self.active.private, self.retired))

    @classmethod
    def decode(cls, stored: bytes) -> Self:
        """Read what `encode` wrote; raise InvalidKeyRing for anything else."""
        try:
            ring = msgspec.json.decode(stored, type=_StoredRing)
            for key in ring.retired:
                Ed25519PublicKey.from_public_bytes(key.public)
            return cls(SigningKey(ring.active), ring.retired)
        except ValueError as error:
            # Not the stored text itself: it holds a secret, and messages end up in logs.
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
