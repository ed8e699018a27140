"""Tokens for callbacks and claims (§7.1, §7.2, §12.9)."""

import base64
import json
from collections.abc import Callable

import jwt
import pytest
from hypothesis import given, strategies as st

from everbrook.protocol.errors import TokenExpired, TokenInvalid
from everbrook.server.webhooks.secrets import MAX_TOKEN_BYTES, Grant, Tokens
from tests.kit.generated import generated

NOW = 1_778_324_210
SECRET = b"0123456789abcdef0123456789abcdef"
CLAIMS = {"sub": "sub-1", "gen": 7, "wake": "w_abc", "exp": NOW + 60}

tokens = Tokens(SECRET)
TOKEN = tokens.issue("sub-1", 7, "w_abc", NOW + 60)


def forged(claims: object, secret: bytes = SECRET, algorithm: str | None = "HS256") -> str:
    return jwt.encode(claims, secret if algorithm else "", algorithm)  # type: ignore[arg-type]


@generated
@given(st.text(max_size=200), st.integers(0, 2**53), st.text(max_size=50), st.integers(NOW + 1, 2**40))
def test_a_token_says_what_it_was_issued_for(subscription: str, generation: int, wake_id: str, expires: int) -> None:
    token = tokens.issue(subscription, generation, wake_id, expires)
    assert tokens.check(token, subscription, NOW) == Grant(subscription, generation, wake_id, expires)


def test_a_token_is_a_jwt_that_goes_into_a_header() -> None:
    """§12.9."""
    assert jwt.decode(TOKEN, SECRET, ["HS256"], options={"verify_exp": False}) == CLAIMS
    assert all(letter.isalnum() or letter in "-_." for letter in TOKEN)


def test_a_token_ends_with_the_second_it_names() -> None:
    assert tokens.check(TOKEN, "sub-1", NOW + 59).generation == 7
    for late in (60, 61, 10**9):
        with pytest.raises(TokenExpired):
            tokens.check(TOKEN, "sub-1", NOW + late)


def test_a_token_is_good_for_its_subscription_only() -> None:
    for other in ("sub-2", "", "sub-1 ", "SUB-1"):
        with pytest.raises(TokenInvalid, match="another subscription"):
            tokens.check(TOKEN, other, NOW)


def test_a_token_for_another_subscription_is_invalid_even_when_its_time_is_over() -> None:
    with pytest.raises(TokenInvalid):
        tokens.check(TOKEN, "sub-2", NOW + 1000)


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "x",
        "ä",
        "\ud800",
        "Bearer " + TOKEN,
        TOKEN + " ",
        TOKEN + ".x",
        TOKEN.rsplit(".", 1)[0],
        TOKEN.rsplit(".", 1)[0] + ".",
        "x" * (MAX_TOKEN_BYTES + 1),
        forged(CLAIMS, b"another secret of thirty-two byte"),
        forged(CLAIMS, algorithm=None),
        forged(CLAIMS, SECRET * 2, "HS512"),
        forged({**CLAIMS, "gen": "7"}),
        forged({**CLAIMS, "gen": 7.5}),
        forged({**CLAIMS, "exp": None}),
        forged({"sub": "sub-1"}),
    ],
)
def test_what_was_not_issued_here_is_refused(token: str) -> None:
    with pytest.raises(TokenInvalid):
        tokens.check(token, "sub-1", NOW)


@generated
@given(st.integers(0, len(TOKEN) - 1), st.sampled_from("ABCxyz019-_."))
def test_a_token_that_was_altered_never_says_anything_else(place: int, letter: str) -> None:
    altered = TOKEN[:place] + letter + TOKEN[place + 1 :]
    try:
        assert tokens.check(altered, "sub-1", NOW) == tokens.check(TOKEN, "sub-1", NOW)
    except TokenInvalid:
        assert altered != TOKEN


def test_the_claims_of_another_token_do_not_go_with_this_signature() -> None:
    head, _, signature = TOKEN.split(".")
    claims = base64.urlsafe_b64encode(json.dumps({**CLAIMS, "gen": 8}).encode()).rstrip(b"=").decode()
    with pytest.raises(TokenInvalid):
        tokens.check(f"{head}.{claims}.{signature}", "sub-1", NOW)


@pytest.mark.parametrize("kind, code", [(TokenInvalid, "TOKEN_INVALID"), (TokenExpired, "TOKEN_EXPIRED")])
def test_a_refusal_is_unauthorized_with_its_own_code(kind: Callable[[str], TokenInvalid], code: str) -> None:
    assert (kind("x").status, kind("x").code) == (401, code)


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 32 bytes, got 31"):
        Tokens(bytes(31))
