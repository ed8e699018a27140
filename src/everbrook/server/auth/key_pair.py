"""A key pair in a folder, like that of an issuer: for tests, and to try a server without an issuer.

`jwks.json` is the public half, for `auth.jwks` or Envoy. `private.pem` signs tokens, and only its owner may read it.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from msgspec import Struct

from everbrook.server.auth.key_file import locked, write

PUBLIC_FILE = "jwks.json"
PRIVATE_FILE = "private.pem"
ALGORITHM = "RS256"
RSA_BITS = 2048

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def _rsa_key() -> PrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)


_MAKERS: Mapping[str, Callable[[], PrivateKey]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), _rsa_key),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ES384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ES512": lambda: ec.generate_private_key(ec.SECP521R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}
ALGORITHMS = tuple(_MAKERS)
_SECRET_MEMBERS = {"d", "p", "q", "dp", "dq", "qi", "key_ops"}


class KeyPair(Struct, frozen=True):
    """A private key, the algorithm that it signs with, and its public half as it is published."""

    algorithm: str
    private: PrivateKey
    jwk: dict[str, Any]

    def __repr__(self) -> str:
        """Show the key's id, not the private half."""
        return f"KeyPair({self.algorithm}, {self.kid})"

    @property
    def kid(self) -> str:
        """The id of the key."""
        return str(self.jwk["kid"])

    def jwks(self) -> bytes:
        """Write the public half as a key set."""
        return json.dumps({"keys": [self.jwk]}, indent=2).encode() + b"\n"

    def mint(self, claims: Mapping[str, Any], kid: str | None = None) -> str:
        """Sign a token."""
        return jwt.encode(dict(claims), self.private, self.algorithm, headers={"kid": kid or self.kid})


def make_pair(algorithm: str = ALGORITHM, kid: str | None = None) -> KeyPair:
    """Create a key pair. Without a `kid` it is named by its thumbprint (RFC 7638)."""
    private = _MAKERS[algorithm]()
    return KeyPair(algorithm, private, _public(private, algorithm, kid))


def save_pair(pair: KeyPair, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / PRIVATE_FILE, pair.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    write(folder / PUBLIC_FILE, pair.jwks())
    (folder / PUBLIC_FILE).chmod(0o644)


def load_pair(folder: Path) -> KeyPair:
    """Read both halves; ValueError if they are damaged, OSError if they can't be read."""
    # The file is ours, so the key has one of the types that `make_pair` makes.
    private = cast("PrivateKey", load_pem_private_key((folder / PRIVATE_FILE).read_bytes(), None))
    try:
        (jwk,) = json.loads((folder / PUBLIC_FILE).read_bytes())["keys"]
        return KeyPair(str(jwk["alg"]), private, jwk)
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{folder / PUBLIC_FILE} must hold one key with its alg") from None


def load_or_make_pair(folder: Path) -> KeyPair:
    """Read a key pair; create it at the first use."""
    with locked(folder / PRIVATE_FILE):
        if not (folder / PRIVATE_FILE).exists():
            save_pair(make_pair(), folder)
        return load_pair(folder)


def _public(private: PrivateKey, algorithm: str, kid: str | None) -> dict[str, Any]:
    text = jwt.get_algorithm_by_name(algorithm).to_jwk(private.public_key(), as_dict=True)
    members = {name: value for name, value in text.items() if name not in _SECRET_MEMBERS}
    thumbprint = hashlib.sha256(json.dumps(members, sort_keys=True, separators=(",", ":")).encode()).digest()
    name = kid or base64.urlsafe_b64encode(thumbprint)[:16].decode()
    return {**members, "kid": name, "use": "sig", "alg": algorithm}
