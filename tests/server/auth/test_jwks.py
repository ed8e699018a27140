"""Key sets: which key verifies what, and which sets are refused."""

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from everbrook.server.auth.jwks import MAX_KEYS, MAX_SET_BYTES, parse_key_set
from everbrook.server.auth.key_pair import ALGORITHMS
from tests.kit.issuer_server import key_set, pair_of

SECRET = base64.urlsafe_b64encode(b"s" * 32).decode().rstrip("=")


def text_of(*keys: object) -> bytes:
    return json.dumps({"keys": keys}).encode()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_key_is_found_by_its_id_and_algorithm(algorithm: str) -> None:
    found = key_set(pair_of(algorithm)).find(algorithm.lower(), algorithm)
    assert found is not None
    assert found.algorithm == algorithm


@pytest.mark.parametrize("algorithm", ["HS256", "ES256", "EdDSA", "none", "RS384"])
def test_a_key_is_not_there_for_an_algorithm_that_is_not_its_own(algorithm: str) -> None:
    assert key_set(pair_of("RS256")).find("rs256", algorithm) is None


def test_without_an_id_it_is_the_only_key_of_its_algorithm() -> None:
    keys = key_set(pair_of("RS256"), pair_of("ES256"))
    assert keys.find(None, "ES256") is keys.find("es256", "ES256")


def test_without_an_id_it_is_none_of_two() -> None:
    assert key_set(pair_of("ES256"), pair_of("ES256", "other")).find(None, "ES256") is None


@pytest.mark.parametrize("change", [{"use": "enc"}, {"key_ops": ["sign"]}, {"kid": 7}, {"kty": "??"}, {"crv": []}])
def test_keys_for_something_else_are_left_out(change: dict[str, Any]) -> None:
    text = text_of(pair_of("RS256").jwk, pair_of("ES256").jwk | change)
    keys = parse_key_set(text, ALGORITHMS)
    assert (keys.find("rs256", "RS256") is not None, keys.find(None, "ES256")) == (True, None)


def test_algorithms_that_are_not_asked_for_are_left_out() -> None:
    assert key_set(pair_of("RS256"), pair_of("ES256"), algorithms=["RS256"]).find("es256", "ES256") is None


def test_a_shared_secret_is_taken_only_where_it_is_asked_for() -> None:
    text = text_of({"kty": "oct", "kid": "s", "k": SECRET, "alg": "HS256"}, pair_of().jwk)
    assert parse_key_set(text, ALGORITHMS).find("s", "HS256") is None
    assert parse_key_set(text, ["HS256"]).find("s", "HS256") is not None


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"{}", b'{"keys": {}}', b'{"keys": []}', b"[" * 100_000, b'{"keys": [1, null]}', b"\xff"],
    ids=range(9),
)
def test_what_is_no_key_set_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"not JSON|a key set is|no key in it"):
        parse_key_set(text, ALGORITHMS)


@pytest.mark.parametrize("text", [b" " * (MAX_SET_BYTES + 1), text_of(*[{}] * (MAX_KEYS + 1))], ids=["bytes", "keys"])
def test_a_set_that_is_too_large_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="at most"):
        parse_key_set(text, ALGORITHMS)


def test_a_private_key_is_refused_and_not_shown() -> None:
    private = jwt.get_algorithm_by_name("RS256").to_jwk(pair_of().private, as_dict=True)
    with pytest.raises(ValueError, match="contains the private key") as refused:
        parse_key_set(text_of(private), ALGORITHMS)
    assert private["d"][:20] not in str(refused.value)


@pytest.mark.parametrize("change", [{"n": "AQAB"}, {"n": "!"}, {"n": 3}, {"e": None}])
def test_a_damaged_key_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="its key 'rs256'"):
        parse_key_set(text_of(pair_of().jwk | change), ALGORITHMS)


def test_a_short_rsa_key_is_refused() -> None:
    weak = generate_private_key(65537, 1024).public_key()  # noqa: S505 - that is the point
    with pytest.raises(ValueError, match="has 1024 bits, fewer than 2048"):
        parse_key_set(text_of(jwt.get_algorithm_by_name("RS256").to_jwk(weak, as_dict=True)), ALGORITHMS)


@pytest.mark.parametrize("unusual", ["damaged", "short", "point"])
def test_a_key_that_can_not_be_used_does_not_spoil_the_others(unusual: str, caplog: pytest.LogCaptureFixture) -> None:
    weak = generate_private_key(65537, 1024).public_key()  # noqa: S505 - that is the point
    beside = {
        "damaged": pair_of("RS256", "other").jwk | {"n": "!"},
        "short": jwt.get_algorithm_by_name("RS256").to_jwk(weak, as_dict=True) | {"kid": "other"},
        "point": pair_of("ES256", "other").jwk | {"x": "AAAA"},
    }[unusual]
    keys = parse_key_set(text_of(beside, pair_of().jwk), ALGORITHMS)
    assert keys.find("rs256", "RS256") is not None
    assert "other" not in keys
    assert "its key 'other'" in caplog.text


@pytest.mark.parametrize("odd", [["sig"], {}, 7, True], ids=str)
@pytest.mark.parametrize("field", ["kty", "crv", "use", "alg", "key_ops"])
def test_a_key_with_a_field_of_another_type_is_left_out_and_named(
    field: str, odd: object, caplog: pytest.LogCaptureFixture
) -> None:
    odd = "verify" if field == "key_ops" and isinstance(odd, list) else odd
    keys = parse_key_set(text_of(pair_of("ES256", "other").jwk | {field: odd}, pair_of().jwk), ALGORITHMS)
    assert keys.ids == {"rs256"}
    assert f"its key 'other' must have a {'list' if field == 'key_ops' else 'text'} as its {field}" in (caplog.text)


@pytest.mark.parametrize("kid", [["a"], {}, 7], ids=str)
def test_a_key_whose_id_is_no_text_is_left_out_and_named(kid: object, caplog: pytest.LogCaptureFixture) -> None:
    keys = parse_key_set(text_of(pair_of("ES256").jwk | {"kid": kid}, pair_of().jwk), ALGORITHMS)
    assert keys.ids == {"rs256"}
    assert f"its key {str(kid)!r} must have a text as its kid" in caplog.text


@pytest.mark.parametrize("nothing", [{"use": None}, {"key_ops": None}])
def test_what_is_null_is_not_said(nothing: dict[str, None]) -> None:
    assert parse_key_set(text_of(pair_of().jwk | nothing), ALGORITHMS).find("rs256", "RS256") is not None


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="has 32 bytes, too few for HS512: 64"):
        parse_key_set(text_of({"kty": "oct", "kid": "s", "k": SECRET}), ["HS512"])


def test_of_two_keys_with_one_id_the_first_holds() -> None:
    first, second = pair_of("ES256", "same").jwk, pair_of("ES256").jwk | {"kid": "same"}
    both = parse_key_set(text_of(first, second), ALGORITHMS).find("same", "ES256")
    alone = parse_key_set(text_of(first), ALGORITHMS).find("same", "ES256")
    assert both is not None
    assert alone is not None
    assert both.jwk.key == alone.jwk.key


def test_a_key_shows_its_algorithm_alone() -> None:
    text = text_of({"kty": "oct", "kid": "s", "k": SECRET})
    assert repr(parse_key_set(text, ["HS256"]).find("s", "HS256")) == "Key(HS256)"
