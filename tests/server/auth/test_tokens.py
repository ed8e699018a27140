"""Tokens: which are good, what they grant, and how a good one is remembered."""

import base64
import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jwt
import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from everbrook.protocol.errors import ProtocolError, TokenExpired, TokenInvalid, TooManyRequests, Unavailable
from everbrook.server.auth.jwks import Key
from everbrook.server.auth.key_pair import ALGORITHMS
from everbrook.server.auth.scopes import Identity, format_scopes, parse_scopes
from everbrook.server.auth.tokens import BearerTokens, Expectation
from everbrook.server.tuning import GuessTuning, TokenTuning
from tests.kit.issuer_server import AUDIENCE, ISSUER, SCOPE, KnownKeys, claims, key_set, mint, pair_of

EXPECTED = Expectation(ISSUER, AUDIENCE, ALGORITHMS, leeway_secs=5.0)


def verifier(expected: Expectation = EXPECTED, now: Callable[[], float] = time.time) -> BearerTokens:
    return BearerTokens(KnownKeys(key_set(*map(pair_of, ALGORITHMS))), expected, now)


def identify(token: str, **changes: object) -> Identity:
    return verifier(replace(EXPECTED, **changes)).identify(token.encode())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_whoever_holds_a_good_token_is_its_subject(algorithm: str) -> None:
    exp = int(time.time()) + 60
    identity = identify(mint(algorithm, exp=exp))
    assert (identity.subject, identity.source) == ("alice", "token")
    assert identity.expires_at_secs == exp + 5.0


@pytest.mark.parametrize(
    "given_claims",
    [
        {"scope": SCOPE},
        {"scope": None, "scopes": [SCOPE]},
        {"scope": None, "permissions": SCOPE.split()},
        {"scope": f"openid {SCOPE} profile read:users"},
        {"scope": SCOPE, "scopes": "admin:/"},
    ],
    ids=["text", "list", "permissions", "among others", "first claim only"],
)
def test_a_token_grants_its_scopes(given_claims: dict[str, Any]) -> None:
    assert identify(mint(**given_claims)).grants == parse_scopes(SCOPE)


def test_a_token_without_the_claim_has_the_default_scopes_of_its_subject() -> None:
    grants = identify(mint(scope=None), default_grants=parse_scopes("read:/v1/stream/{sub}")).grants
    assert format_scopes(grants) == "read:/v1/stream/alice"


@pytest.mark.parametrize("scope", ["", "openid", [], "raed:/"])
def test_a_token_whose_claim_has_nothing_of_ours_may_do_nothing(scope: object) -> None:
    assert identify(mint(scope=scope), default_grants=parse_scopes("admin:/")).grants == ()


def test_a_claim_can_not_stand_for_another_subject() -> None:
    grants = identify(mint(scope="read:/v1/stream/{sub}")).grants
    assert format_scopes(grants) == "read:/v1/stream/{sub}"


@pytest.mark.parametrize("aud", [[AUDIENCE], ["other", AUDIENCE]])
def test_one_audience_of_several_is_enough(aud: list[str]) -> None:
    assert identify(mint(aud=aud)).subject == "alice"


@pytest.mark.parametrize("aud", [None, "other", []])
def test_an_audience_that_is_not_asked_for_does_not_matter(aud: object) -> None:
    assert identify(mint(aud=aud), audience=None).subject == "alice"


def test_a_token_ends_after_the_leeway_also_when_it_is_remembered() -> None:
    now = time.time()
    clock = [now]
    tokens = verifier(now=lambda: clock[0])
    token = mint(exp=int(now) + 10).encode()
    tokens.identify(token)
    clock[0] = int(now) + 14.9
    assert tokens.identify(token).subject == "alice"
    clock[0] = int(now) + 15
    with pytest.raises(TokenExpired, match=f"expired at {int(now) + 10}, it is {int(now) + 15} now"):
        tokens.identify(token)


def test_a_token_begins_before_its_time_by_the_leeway() -> None:
    assert identify(mint(nbf=int(time.time()) + 3)).subject == "alice"


def test_a_remembered_token_is_not_verified_again() -> None:
    keys = KnownKeys(key_set())
    tokens, token = BearerTokens(keys, EXPECTED), mint().encode()
    assert tokens.identify(token) is tokens.identify(token)
    assert keys.asked == 1


def test_other_keys_make_a_remembered_token_be_verified_again() -> None:
    keys = KnownKeys(key_set())
    tokens, token = BearerTokens(keys, EXPECTED), mint().encode()
    tokens.identify(token)
    keys.keys, keys.generation = key_set(pair_of("ES256")), 1
    with pytest.raises(TokenInvalid):
        tokens.identify(token)


def test_a_refused_token_is_not_remembered() -> None:
    remembered: dict[bytes, Identity] = {}
    tokens = BearerTokens(KnownKeys(key_set()), EXPECTED, remembered=remembered)
    for _ in range(3):
        with pytest.raises(TokenInvalid):
            tokens.identify(mint(iss="other").encode())
    assert not remembered


def test_only_so_many_tokens_are_remembered() -> None:
    remembered: dict[bytes, Identity] = {}
    keys = KnownKeys(key_set(pair_of("EdDSA")))
    tokens = BearerTokens(keys, EXPECTED, tuning=TokenTuning(max_remembered=3), remembered=remembered)
    for number in range(5):
        tokens.identify(mint("EdDSA", jti=str(number)).encode())
    assert len(remembered) == 3


def test_the_tokens_themselves_are_not_kept() -> None:
    remembered: dict[bytes, Identity] = {}
    tokens, token = BearerTokens(KnownKeys(key_set()), EXPECTED, remembered=remembered), mint().encode()
    tokens.identify(token)
    assert len(remembered) == 1
    assert token not in repr(remembered).encode()


def test_a_token_that_can_not_be_judged_now_is_neither_good_nor_bad() -> None:
    class Absent(KnownKeys):
        def find(self, kid: str | None, algorithm: str) -> Key | None:  # noqa: ARG002 - the signature is given
            raise Unavailable("not yet")

    with pytest.raises(Unavailable):
        BearerTokens(Absent(key_set()), EXPECTED).identify(mint().encode())


@pytest.mark.parametrize("change", [{"iss": "other"}, {"aud": "other"}, {"exp": 1}, {"sub": 1}])
def test_a_token_that_says_the_wrong_things_needs_no_key(change: dict[str, Any]) -> None:
    keys = KnownKeys(key_set())
    with pytest.raises(ProtocolError):
        BearerTokens(keys, EXPECTED).identify(mint(**change).encode())
    assert keys.asked == 0


def test_a_key_id_that_is_too_long_is_not_looked_for() -> None:
    """Where keys are fetched, those that are missed are remembered."""
    keys = KnownKeys(key_set())
    with pytest.raises(TokenInvalid, match="has a kid of 257 characters"):
        BearerTokens(keys, EXPECTED).identify(pair_of().mint(claims(), kid="k" * 257).encode())
    assert keys.asked == 0


def test_a_token_without_a_key_id_is_verified_by_the_only_key() -> None:
    tokens = BearerTokens(KnownKeys(key_set()), EXPECTED)
    header = base64.urlsafe_b64encode(json.dumps({"alg": "RS256"}).encode()).rstrip(b"=")
    _, payload, _ = mint().encode().split(b".")
    message = header + b"." + payload
    signature = jwt.get_algorithm_by_name("RS256").sign(message, pair_of().private)
    assert tokens.identify(message + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).subject == "alice"


SHARED = verifier()


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_refused_as_a_token(text: bytes) -> None:
    with pytest.raises(TokenInvalid):
        SHARED.identify(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["sub", "iss", "aud", "exp", "nbf", "scope"]), VALUES)
def test_a_signed_token_with_any_claim_is_good_or_refused(name: str, value: object) -> None:
    """An issuer that signs nonsense causes no fault of ours."""
    document = base64.urlsafe_b64encode(json.dumps(claims() | {name: value}).encode()).rstrip(b"=")
    message = mint("EdDSA").encode().split(b".")[0] + b"." + document
    signature = base64.urlsafe_b64encode(pair_of("EdDSA").private.sign(message)).rstrip(b"=")  # type: ignore[call-arg]
    try:
        identity = SHARED.identify(message + b"." + signature)
    except (TokenInvalid, TokenExpired):
        return
    assert identity.subject.isprintable()


def _unsigned(**changes: object) -> str:
    parts = ({"alg": "RS256", "kid": "rs256"}, claims(**changes))
    return b".".join(
        [*(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts), b"eHg"]
    ).decode()


@pytest.mark.parametrize(
    "changes", [{"\ud800": 1}, {"nbf": 10**400}, {"nbf": -(10**400)}], ids=["surrogate", "nbf", "-nbf"]
)
def test_what_can_not_be_read_is_refused_like_every_bad_token(changes: dict[str, Any]) -> None:
    with pytest.raises(TokenInvalid):
        identify(_unsigned(**changes))


@pytest.mark.parametrize("claimed", [{"scope": []}, {"scope": ""}, {"scope": "null"}])
def test_a_claim_that_is_empty_grants_nothing(claimed: dict[str, Any]) -> None:
    token = mint(**claimed).encode()
    defaults = replace(EXPECTED, default_grants=parse_scopes("admin:/"))
    assert verifier(defaults).identify(token).grants == ()


def test_a_claim_that_is_null_is_an_empty_one() -> None:
    token = pair_of().mint(claims(scopes=[SCOPE]) | {"scope": None}).encode()
    defaults = replace(EXPECTED, default_grants=parse_scopes("admin:/"))
    assert verifier(defaults).identify(token).grants == ()


def test_who_sends_bad_signatures_is_soon_not_listened_to() -> None:
    tuning = TokenTuning(guesses=GuessTuning(per_sec=0.01, burst_secs=500.0))
    tokens, bad = BearerTokens(KnownKeys(key_set()), EXPECTED, tuning=tuning), _unsigned().encode()
    for _ in range(10):
        with suppress(TokenInvalid, TooManyRequests):
            tokens.identify(bad, "mallory")
    with pytest.raises(TooManyRequests):
        tokens.identify(bad, "mallory")
    assert tokens.identify(mint().encode(), "alice").subject == "alice"
