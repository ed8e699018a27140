"""Key sets (RFC 7517): the public keys of an issuer, each with the algorithms that it is for.

The key decides which algorithms are possible, never the token alone. A key is found by its id *and* the algorithm that
the token names, and only under the algorithms that its type, curve and `alg` allow. So a public key can't be used as a
shared secret (algorithm confusion). A key that can't be used is skipped and logged: one unusual key must not make the
whole set unusable.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from msgspec import Struct

logger = logging.getLogger(__name__)

MAX_SET_BYTES = 256 * 1024
MAX_KEYS = 100
MIN_RSA_BITS = 2048
MIN_SECRET_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_TEXTS = ("kid", "kty", "crv", "use", "alg")
_FITTING: Mapping[tuple[str | None, str | None], tuple[str, ...]] = {
    ("RSA", None): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("oct", None): ("HS256", "HS384", "HS512"),
}


class Key(Struct, frozen=True):
    """A key, prepared for one algorithm."""

    algorithm: str
    jwk: jwt.PyJWK

    def __repr__(self) -> str:
        """Show the algorithm alone: the key may be a shared secret."""
        return f"Key({self.algorithm})"


class KeySet:
    """The keys of an issuer."""

    def __init__(self, keys: Mapping[tuple[str | None, str], Key]) -> None:
        """`keys` are indexed by their id and algorithm."""
        self._keys = dict(keys)
        self.ids = {kid for kid, _ in keys}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, kid: object) -> bool:
        return kid in self.ids

    def find(self, kid: str | None, algorithm: str) -> Key | None:
        """Find the key that a token names. Without an id it is the only one of its algorithm, or none."""
        if kid is not None:
            return self._keys.get((kid, algorithm))
        fitting = [key for (_, name), key in self._keys.items() if name == algorithm]
        return fitting[0] if len(fitting) == 1 else None


def parse_key_set(text: bytes, algorithms: Iterable[str]) -> KeySet:
    """Read a key set without the keys for other algorithms. Raise ValueError if none is left."""
    found: dict[tuple[str | None, str], Key] = {}
    unusable: list[str] = []
    for document in _keys_of(text):
        # Anyone who can read the set could sign with a published private key, so none of its keys is trusted.
        if "d" in document:
            _refuse(document, "contains the private key, which only the issuer may have")
        try:
            # Of two keys with the same id and algorithm the first one counts.
            found = _keys_in(document, algorithms) | found
        except ValueError as error:
            unusable.append(str(error))
    if not found:
        raise ValueError(unusable[0] if unusable else f"no key in it can verify a signature of {', '.join(algorithms)}")
    for reason in unusable:
        logger.warning("a key of the tokens' issuer is ignored: %s", reason)
    return KeySet(found)


def _keys_in(document: Mapping[str, Any], algorithms: Iterable[str]) -> dict[tuple[str | None, str], Key]:
    _check_types(document)
    kid = document.get("kid")
    wanted = [algorithm for algorithm in _fitting(document) if algorithm in algorithms]
    return {(kid, algorithm): Key(algorithm, _load(document, algorithm)) for algorithm in wanted}


def _keys_of(text: bytes) -> list[dict[str, Any]]:
    if len(text) > MAX_SET_BYTES:
        raise ValueError(f"a key set has at most {MAX_SET_BYTES} bytes, got {len(text)}")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None  # the text is not shown: it may hold a secret
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or len(keys) > MAX_KEYS:
        raise ValueError(f"a key set is an object with a list of at most {MAX_KEYS} 'keys'")
    return [key for key in keys if isinstance(key, dict)]


def _check_types(document: Mapping[str, Any]) -> None:
    for name in _TEXTS:
        if not isinstance(document.get(name), str | None):
            _refuse(document, f"must have a text as its {name}")
    if not isinstance(document.get("key_ops"), list | None):
        _refuse(document, "must have a list as its key_ops")


def _fitting(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the algorithms that a key may verify: those of its type, and of its `alg` if it has one."""
    operations = ["verify"] if document.get("key_ops") is None else document["key_ops"]
    if document.get("use") not in {None, "sig"} or "verify" not in operations:
        return ()
    fitting, named = _FITTING.get((document.get("kty"), document.get("crv")), ()), document.get("alg")
    return fitting if named is None else tuple(name for name in fitting if name == named)


def _load(document: Mapping[str, Any], algorithm: str) -> jwt.PyJWK:
    try:
        key = jwt.PyJWK(dict(document), algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        _refuse(document, "is damaged")
    if isinstance(key.key, RSAPublicKey) and key.key.key_size < MIN_RSA_BITS:
        _refuse(document, f"has {key.key.key_size} bits, fewer than {MIN_RSA_BITS}")
    if isinstance(key.key, bytes) and len(key.key) < MIN_SECRET_BYTES[algorithm]:
        _refuse(document, f"has {len(key.key)} bytes, too few for {algorithm}: {MIN_SECRET_BYTES[algorithm]}")
    return key


def _refuse(document: Mapping[str, Any], reason: str) -> NoReturn:
    raise ValueError(f"its key {str(document.get('kid'))[:80]!r} {reason}")
