"""Signatures and the ring of keys (§6.5, §7.1)."""

import base64
import json
import secrets
import subprocess

import jwt
import msgspec
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, strategies as st

from everbrook.server.webhooks.secrets import InvalidKeyRing, KeyRing, SigningKey
from tests.kit.generated import generated
from tools.node import find_node

NOW = 1_778_324_210
DAY = 86_400

# RFC 8037, appendix A: a key, its public half and its thumbprint.
RFC_D = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
RFC_X = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
RFC_THUMBPRINT = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"

# Made with `openssl pkeyutl -sign -rawin` from the key of RFC 8037 over `1778324210.{"a":1}`.
KNOWN_SIGNATURE = "jHEDcx02wN5EcS5PtJBgQFraJI_MBjnAgsloohvsHYUH9cMX6g7ISA8Ca2g7-DFZ3ZjP9Z0v-cSSHWvJUzQNDg"

VERIFY_IN_NODE = """
const crypto = require('node:crypto');
const {jwk, data, signature} = JSON.parse(require('node:fs').readFileSync(0, 'utf8'));
const key = crypto.createPublicKey({key: jwk, format: 'jwk'});
const verified = crypto.verify(null, Buffer.from(data, 'base64'), key, Buffer.from(signature, 'base64url'));
process.stdout.write(String(verified));
"""

private_keys = st.binary(min_size=32, max_size=32)


def raw(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


RFC_KEY = SigningKey(raw(RFC_D))


def parts(header: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in header.split(","))


def kids(ring: KeyRing, now_secs: int) -> list[str]:
    return [key.kid for key in ring.jwks(now_secs).keys]


def test_the_public_key_is_published_under_its_thumbprint() -> None:
    """§6.5, RFC 7638, RFC 8037 appendix A.3."""
    assert msgspec.to_builtins(RFC_KEY.jwk()) == {
        "kty": "OKP",
        "crv": "Ed25519",
        "kid": f"ds_{RFC_THUMBPRINT}",
        "use": "sig",
        "alg": "EdDSA",
        "x": RFC_X,
    }


def test_a_signature_is_the_one_that_another_program_makes() -> None:
    """§7.1: `t=<timestamp>,kid=<key-id>,ed25519=<base64url-signature>`."""
    assert RFC_KEY.sign(b'{"a":1}', NOW) == f"t={NOW},kid=ds_{RFC_THUMBPRINT},ed25519={KNOWN_SIGNATURE}"


@generated
@given(private_keys, st.binary(), st.integers(0, 2**40))
def test_a_signature_verifies_with_the_published_key_and_for_nothing_else(
    private: bytes, body: bytes, now_secs: int
) -> None:
    key = SigningKey(private)
    signature = raw(parts(key.sign(body, now_secs))["ed25519"])
    public = Ed25519PublicKey.from_public_bytes(raw(key.jwk().x))
    public.verify(signature, f"{now_secs}.".encode() + body)
    for other in (f"{now_secs + 1}.".encode() + body, f"{now_secs}.".encode() + body + b" ", body):
        with pytest.raises(InvalidSignature):
            public.verify(signature, other)


def test_a_signature_verifies_in_node() -> None:
    body = secrets.token_bytes(1000)
    key = SigningKey(secrets.token_bytes(32))
    signed = parts(key.sign(body, NOW))
    question = {
        "jwk": msgspec.to_builtins(key.jwk()),
        "data": base64.b64encode(signed["t"].encode() + b"." + body).decode(),
        "signature": signed["ed25519"],
    }
    command = [str(find_node().executable), "-e", VERIFY_IN_NODE]
    ran = subprocess.run(command, input=json.dumps(question), capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "true"


def test_the_set_of_keys_is_one_that_a_jose_library_reads() -> None:
    ring = KeyRing(RFC_KEY).rotate(NOW, b"\1" * 32, DAY)
    read = jwt.PyJWKSet.from_json(msgspec.json.encode(ring.jwks(NOW)).decode())
    assert [key.key_id for key in read.keys] == kids(ring, NOW)
    assert {key.algorithm_name for key in read.keys} == {"EdDSA"}


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_a_private_key_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"has 32 bytes, got {size}"):
        SigningKey(bytes(size))


def test_a_key_does_not_show_its_secret() -> None:
    key = SigningKey(b"secret, not to be seen in a log!")
    assert "secret" not in repr(key) + repr(KeyRing(key))


def test_a_rotation_signs_with_the_new_key_and_keeps_the_old_one_published() -> None:
    """§6.5: until nothing that was signed with it can be accepted any more."""
    ring = KeyRing(RFC_KEY).rotate(NOW, b"\1" * 32, DAY)
    assert ring.active == SigningKey(b"\1" * 32)
    assert kids(ring, NOW) == kids(ring, NOW + DAY - 1) == [ring.active.kid, RFC_KEY.kid]
    assert kids(ring, NOW + DAY) == [ring.active.kid]


def test_a_rotation_drops_what_is_past_its_time_and_nothing_else() -> None:
    ring = KeyRing(RFC_KEY)
    for turn in range(1, 5):
        ring = ring.rotate(NOW + turn * DAY, bytes([turn]) * 32, 2 * DAY)
    kept = [SigningKey(bytes([turn]) * 32).kid for turn in (4, 3, 2)]
    assert kids(ring, NOW + 4 * DAY) == kept
    assert len(ring.retired) == 2


def test_a_rotation_forgets_the_old_secret() -> None:
    stored = KeyRing(RFC_KEY).rotate(NOW, b"\1" * 32, DAY).encode()
    assert base64.b64encode(RFC_KEY.private) not in stored
    assert base64.b64encode(RFC_KEY.public) in stored


def test_a_rotation_to_a_key_that_is_published_is_refused() -> None:
    ring = KeyRing(RFC_KEY).rotate(NOW, b"\1" * 32, DAY)
    for private in (b"\1" * 32, RFC_KEY.private):
        with pytest.raises(ValueError, match="needs a new key"):
            ring.rotate(NOW, private, DAY)


@generated
@given(
    private_keys,
    st.lists(st.tuples(private_keys, st.integers(0, 1000), st.integers(0, 1000)), max_size=5, unique_by=lambda t: t[0]),
)
def test_a_ring_is_read_back_as_it_was_written(first: bytes, rotations: list[tuple[bytes, int, int]]) -> None:
    ring, now_secs = KeyRing(SigningKey(first)), NOW
    for private, later, keep in rotations:
        if private != first:
            now_secs += later
            ring = ring.rotate(now_secs, private, keep)
    again = KeyRing.decode(ring.encode())
    assert again == ring
    assert again.jwks(now_secs) == ring.jwks(now_secs)
    assert again.active.sign(b"x", NOW) == ring.active.sign(b"x", NOW)


STORED = KeyRing(RFC_KEY).rotate(NOW, b"\1" * 32, DAY).encode()


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"{}",
        b"[]",
        STORED[:-1],
        STORED + b"x",
        STORED.replace(b'"version":1', b'"version":2'),
        STORED.replace(b'"version"', b'"unknown"'),
        b'{"active":"AAAA","retired":[]}',
        b'{"active":"' + base64.b64encode(bytes(32)) + b'","retired":[{"public":"AAAA","published_until_secs":1}]}',
        b'{"active":' + b"[" * 5000,
        b"\xff\xfe",
    ],
)
def test_a_ring_that_is_damaged_is_refused(stored: bytes) -> None:
    with pytest.raises(InvalidKeyRing, match="the stored signing keys are damaged"):
        KeyRing.decode(stored)


@pytest.mark.parametrize("place", range(0, len(STORED), 7))
def test_a_refusal_tells_no_secret(place: int) -> None:
    with pytest.raises(InvalidKeyRing) as caught:
        KeyRing.decode(STORED[:place] + b"\0" + STORED[place + 1 :])
    assert base64.b64encode(b"\1" * 32).decode()[:8] not in str(caught.value)
