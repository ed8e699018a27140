"""``everbrook token``: test tokens, alone on standard output."""

import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.cli.conftest import Run


def opened(token: str, folder: str = "data/stack/keys", **options: str) -> dict[str, Any]:
    """The claims of a token, verified as a stranger would."""
    (key,) = jwt.PyJWKSet.from_json(Path(folder, "jwks.json").read_text()).keys
    checked = {"audience": "everbrook-test", "issuer": "everbrook-test"} | options
    return jwt.decode(token.strip(), key, [key.algorithm_name], audience=checked["audience"], issuer=checked["issuer"])


def test_a_token_is_signed_by_a_key_that_is_made_on_first_use(run: Run) -> None:
    first, second = run("token"), run("token")
    assert (first.code, first.err, first.out.count("\n")) == (0, "", 1)
    assert opened(first.out)["sub"] == opened(second.out)["sub"] == "tester"


def test_a_token_says_what_it_is_told_to(run: Run) -> None:
    ran = run("token", "--sub", "bob", "--issuer", "i", "--audience", "a", "--scope", "read:/x", "--for", "5m")
    claims = opened(ran.out, audience="a", issuer="i")
    assert (claims["sub"], claims["scope"], claims["exp"] - claims["iat"]) == ("bob", "read:/x", 300)


def test_the_settings_say_issuer_and_audience(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in {"JWKS": "f", "ISSUER": "i", "AUDIENCE": "a"}.items():
        monkeypatch.setenv(f"DS_AUTH__{key}", value)
    assert opened(run("token").out, audience="a", issuer="i")


def test_an_expired_token_is_over(run: Run) -> None:
    token = run("token", "--expired").out
    with pytest.raises(jwt.ExpiredSignatureError):
        opened(token)
    assert jwt.decode(token.strip(), options={"verify_signature": False})["exp"] < time.time() - 3000


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_new_keys_sign_with_the_algorithm_that_was_asked_for(run: Run, algorithm: str) -> None:
    made = run("token", "--new-keys", "k", "--algorithm", algorithm, "--kid", "mine")
    assert (made.code, made.out) == (0, "")
    token = run("token", "--keys", "k").out.strip()
    assert jwt.get_unverified_header(token) == {"alg": algorithm, "kid": "mine", "typ": "JWT"}
    assert opened(token, "k")


def test_new_keys_replace_those_that_were_there(run: Run) -> None:
    run("token", "--new-keys", "k")
    token = run("token", "--keys", "k").out
    run("token", "--new-keys", "k")
    with pytest.raises(jwt.InvalidSignatureError):
        opened(token, "k")


def test_a_token_can_name_any_key(run: Run) -> None:
    assert jwt.get_unverified_header(run("token", "--kid", "other").out.strip())["kid"] == "other"


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--scope", "write:/"], "the verbs of a scope"),
        (["--for", "soon"], "such as 90s, 15m, 1h or 7d"),
        (["--for", "0h"], "such as 90s"),
        (["--algorithm", "ES256"], "--algorithm is only for --new-keys"),
        (["--new-keys", "k", "--algorithm", "none"], "--algorithm must be one of RS256"),
    ],
)
def test_wrong_use_is_said(run: Run, arguments: list[str], said: str) -> None:
    ran = run("token", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_the_folder_of_the_stack_has_the_keys(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERBROOK_STACK_DIR", str(folder / "site"))
    run("token")
    assert (folder / "site/keys/jwks.json").is_file()


def test_json_has_the_token_and_its_claims(run: Run) -> None:
    document = json.loads(run("token", "--json").out)
    assert opened(document["token"]) == document["claims"]


def test_json_of_new_keys_says_where_they_are(run: Run, folder: Path) -> None:
    document = json.loads(run("token", "--new-keys", "k", "--json").out)
    assert (folder / document["jwks"]).is_file()
