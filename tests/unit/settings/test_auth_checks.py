"""The settings of auth: what each refusal says, and which of them need each other."""

from pathlib import Path

import pytest

from everbrook.settings import Settings, SettingsError, load_settings


def load(**auth: str) -> Settings:
    environ = {f"DS_AUTH__{key.upper()}": value for key, value in auth.items()}
    return load_settings(environ=environ, folder=Path("nowhere"))


def refusal(**auth: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load(**auth)
    return str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["keys/jwks.json", "https://i.example/jwks", "http://127.0.0.1:9/jwks", "http://[::1]/jwks", "http://localhost/j"],
)
def test_a_key_set_is_a_file_or_a_safe_url(url: str) -> None:
    assert load(jwks=url, issuer="i", audience="a").auth.jwks == url


@pytest.mark.parametrize(
    "url, said",
    [
        ("http://issuer.example/jwks", "it must be https"),
        ("http://127.0.0.1.evil.example/", "it must be https"),
        ("HTTP://10.0.0.1/", "it must be https"),
        ("ftp://issuer.example/", "does not speak 'ftp'"),
        ("https://u:p@issuer.example/", "no credentials and no fragment"),
        ("https://", "has no host"),
        (" jwks.json", "blanks around it"),
    ],
)
def test_any_other_url_of_keys_is_refused(url: str, said: str) -> None:
    message = refusal(jwks=url, issuer="i", audience="a")
    assert message.startswith("DS_AUTH__JWKS: auth.jwks must be the path of a file, an https URL, or")
    assert said in message


@pytest.mark.parametrize(
    "key, value, said",
    [
        ("algorithms", "", "it is empty"),
        ("algorithms", "RS256,none", "'none' is none of RS256"),
        ("algorithms", "RS256,HS256", "can't be combined"),
        ("issuer", "a\nb", "can't be printed"),
        ("scope_claim", " , ", "it is empty"),
        ("default_scopes", "read", "'read' has no colon"),
        ("default_scopes", "write:/", "'write' is none of the verbs read, append, create, delete, admin"),
        ("default_scopes", "read:chats", "'chats' does not begin with '/'"),
        ("default_scopes", "read:/a/../b", "or one of dots"),
        ("default_scopes", "read:/a%2", "a percent sign without"),
        ("default_scopes", "admin:/%00", "a control character"),
        ("default_scopes", "admin:/%ff", "no UTF-8"),
        ("default_scopes", "admin:/a%5Cb", "a backslash"),
        ("public_read", "/%2e%2e", "or one of dots"),
        ("public_read", "/a%2F%2Fb", "has an empty segment"),
        ("public_read", "public", "'public' does not begin with '/'"),
        ("public_read", "/a//b", "has an empty segment"),
        ("trusted_proxies", "10.0.0.1/8", "has host bits set"),
        ("trusted_proxies", "envoy", "'envoy' does not appear to be an IPv4 or IPv6 network"),
        ("identity_header", "", "it is empty"),
        ("identity_header", "X JWT", "cannot have"),
        ("identity_header", "Authorization", "has another meaning"),
        ("identity_header", "X-Forwarded-For", "has another meaning"),
        ("identity_header", "Content-Type", "has another meaning"),
        ("identity_header", "X_User", "an underscore"),
        ("api_keys_path", " x", "blanks around it"),
        ("leeway_secs", "-1", "a finite number of at least 0"),
        ("jwks_refresh_secs", "0", "a finite number greater than 0"),
    ],
)
def test_each_refusal_names_what_is_wrong(key: str, value: str, said: str) -> None:
    message = refusal(**{key: value})
    assert message.startswith(f"DS_AUTH__{key.upper()}: auth.{key} must be ")
    assert said in message


@pytest.mark.parametrize(
    "given, said",
    [
        ({"jwks": "f"}, "auth.jwks needs auth.issuer"),
        ({"jwks": "f", "issuer": "i"}, "auth.jwks needs auth.audience"),
        ({"issuer": "i"}, "auth.issuer has no effect without auth.jwks"),
        ({"audience": "a"}, "auth.audience has no effect without auth.jwks"),
        ({"trusted_proxies": "10.0.0.1"}, "auth.trusted_proxies need auth.default_scopes"),
        (
            {"jwks": "https://i.example/", "issuer": "i", "audience": "a", "algorithms": "HS256"},
            "auth.algorithms use a shared secret",
        ),
    ],
)
def test_a_half_of_something_is_refused_in_one_line(given: dict[str, str], said: str) -> None:
    message = refusal(**given)
    assert message.startswith("DS_AUTH__")
    assert said in message
    assert "\n" not in message


def test_nothing_is_asked_of_anybody_by_default() -> None:
    assert not load().auth.configured


@pytest.mark.parametrize("key", ["api_keys_path", "url_keys_path", "public_read", "default_scopes"])
def test_any_way_to_prove_an_identity_makes_a_policy(key: str) -> None:
    assert load(**{key: "read:/x" if key == "default_scopes" else "/x"}).auth.configured


def test_the_credentials_of_a_refused_url_are_not_shown() -> None:
    with pytest.raises(SettingsError, match="no credentials and no fragment") as refused:
        load_settings(environ={"DS_AUTH__JWKS": "https://user:hunter2@issuer.example/keys"})
    assert "hunter2" not in str(refused.value)
