"""The ways to prove an identity, in their order: the first that is present decides."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import jwt
import pytest

from everbrook.protocol.errors import TokenInvalid, Unauthorized, Unavailable
from everbrook.server.auth import api_keys, signed_urls
from everbrook.server.auth.credentials import Authenticator
from everbrook.server.auth.scopes import format_scopes
from everbrook.server.exchange import Peer, Request
from everbrook.settings import AuthSettings, SettingsError
from tests.kit.issuer_server import AUDIENCE, ISSUER, Issuer, jwks, mint, pair_of

PROXY = Peer("10.0.0.1")
API_KEY, STORED_KEY = api_keys.make_key("read:/", 0)
URL_KEY = signed_urls.make_key(0)
SIGNED = signed_urls.sign(b"/v1/stream/a", int(time.time()) + 86_400, URL_KEY).encode()


@pytest.fixture
def every_way(tmp_path: Path) -> AuthSettings:
    """Settings by which every way is open."""
    (tmp_path / "jwks.json").write_bytes(jwks(pair_of()))
    (tmp_path / "api.json").write_bytes(api_keys.format_file(api_keys.ApiKeyFile((STORED_KEY,))))
    (tmp_path / "urls.json").write_bytes(signed_urls.format_file(signed_urls.UrlKeyFile((URL_KEY,))))
    return AuthSettings(
        jwks=str(tmp_path / "jwks.json"),
        issuer=ISSUER,
        audience=AUDIENCE,
        api_keys_path=str(tmp_path / "api.json"),
        url_keys_path=str(tmp_path / "urls.json"),
        trusted_proxies="10.0.0.0/8",
        default_scopes="read:/v1/stream/{sub}",
    )


def asking(query: bytes = b"", peer: Peer = PROXY, **headers: str) -> Request:
    given = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Request(b"GET", b"/v1/stream/a", query, given, b"", peer=peer)


def source(settings: AuthSettings, request: Request) -> str | None:
    identity = Authenticator(settings).identify(request)
    return identity.source if identity else None


def test_nobody_is_nobody_in_particular(every_way: AuthSettings) -> None:
    assert Authenticator(every_way).identify(asking()) is None


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER  "])
def test_a_token_comes_first(every_way: AuthSettings, scheme: str) -> None:
    peer = Peer("10.0.0.1", "carol")
    request = asking(SIGNED, peer, authorization=scheme + mint(), x_jwt_sub="bob")
    assert source(every_way, request) == "token"


def test_what_begins_as_an_api_key_is_one(every_way: AuthSettings) -> None:
    assert source(every_way, asking(authorization=f"Bearer {API_KEY}")) == "api_key"


def test_a_signed_url_comes_before_the_proxy(every_way: AuthSettings) -> None:
    assert source(every_way, asking(SIGNED, x_jwt_sub="bob")) == "signed_url"


def test_the_proxy_comes_before_the_certificate(every_way: AuthSettings) -> None:
    identity = Authenticator(every_way).identify(asking(peer=Peer("10.0.0.1", "carol"), x_jwt_sub="bob"))
    assert identity is not None
    assert (identity.subject, format_scopes(identity.grants)) == ("bob", "read:/v1/stream/bob")


def test_the_header_of_anybody_else_means_nothing(every_way: AuthSettings) -> None:
    assert source(every_way, asking(peer=Peer("11.0.0.1"), x_jwt_sub="bob")) is None


def test_a_certificate_is_an_identity(every_way: AuthSettings) -> None:
    identity = Authenticator(every_way).identify(asking(peer=Peer("11.0.0.1", "carol"), x_jwt_sub="bob"))
    assert identity is not None
    assert (identity.subject, identity.source) == ("carol", "certificate")
    assert format_scopes(identity.grants) == "read:/v1/stream/carol"


def test_the_certificate_of_a_proxy_is_nobody_elses(every_way: AuthSettings) -> None:
    envoy = Peer("10.0.0.1", "envoy")
    assert source(every_way, asking(peer=envoy)) is None
    assert source(every_way, asking(peer=envoy, x_jwt_sub="")) is None


@pytest.mark.parametrize("query", [b"mysignature=1", b"offset=-1&mysignature=1", b"a=signature=1"])
def test_a_parameter_that_ends_like_ours_is_somebody_elses(every_way: AuthSettings, query: bytes) -> None:
    assert source(every_way, asking(query, x_jwt_sub="bob")) == "proxy"


@pytest.mark.parametrize(
    "bad",
    ["Bearer x.y.z", f"Bearer {API_KEY[:-1]}", "Basic YTpi", "Bearer", "", "Bearer a b"],
    ids=["no token", "key cut short", "basic", "bearer alone", "empty", "two words"],
)
def test_a_bad_credential_is_refused_and_not_passed_over(every_way: AuthSettings, bad: str) -> None:
    with pytest.raises(Unauthorized):
        Authenticator(every_way).identify(asking(SIGNED, authorization=bad, x_jwt_sub="bob"))


def test_two_credentials_are_refused(every_way: AuthSettings) -> None:
    """A header that comes twice is a list, and of two tokens none is the one."""
    with pytest.raises(Unauthorized, match="one token"):
        Authenticator(every_way).identify(asking(authorization=f"Bearer {mint()}, Bearer {mint()}"))


def test_a_refusal_does_not_show_the_credential(every_way: AuthSettings) -> None:
    with pytest.raises(Unauthorized) as refused:
        Authenticator(every_way).identify(asking(authorization="Basic c2VjcmV0LXNlY3JldA=="))
    assert "c2Vj" not in refused.value.detail


def test_what_a_server_is_not_set_up_for_is_no_credential() -> None:
    settings = AuthSettings(trusted_proxies="10.0.0.0/8", default_scopes="read:/")
    assert source(settings, asking(SIGNED, authorization="Bearer anything", x_jwt_sub="bob")) == "proxy"


def test_a_server_of_api_keys_takes_no_tokens(every_way: AuthSettings) -> None:
    settings = AuthSettings(api_keys_path=every_way.api_keys_path)
    with pytest.raises(TokenInvalid, match="tokens are not configured"):
        Authenticator(settings).identify(asking(authorization=f"Bearer {mint()}"))


def test_a_file_that_is_missing_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"auth\.api_keys_path: .*No such file.*; `everbrook apikey create` creates it"
    ):
        Authenticator(AuthSettings(api_keys_path=str(tmp_path / "missing")))


def test_a_reload_takes_what_the_files_have_now(every_way: AuthSettings) -> None:
    authenticator = Authenticator(every_way)
    key, stored = api_keys.make_key("read:/", 0)
    Path(every_way.api_keys_path).write_bytes(api_keys.format_file(api_keys.ApiKeyFile((stored,))))
    for reload in authenticator.reloads:
        reload()
    assert authenticator.identify(asking(authorization=f"Bearer {key}")) is not None


def test_keys_of_a_url_come_with_the_beginning() -> None:
    async def run(url: str) -> str | None:
        authenticator = Authenticator(AuthSettings(jwks=url, issuer=ISSUER, audience=AUDIENCE))
        with pytest.raises(Unavailable):
            authenticator.identify(asking(authorization=f"Bearer {mint()}"))
        await authenticator.begin()
        identity = authenticator.identify(asking(authorization=f"Bearer {mint()}"))
        await authenticator.close()
        return identity.subject if identity else None

    with Issuer(pair_of()) as issuer:
        assert asyncio.run(run(issuer.url)) == "alice"


def test_a_shared_secret_is_taken_where_it_is_configured(tmp_path: Path) -> None:
    (tmp_path / "jwks.json").write_text('{"keys": [{"kty": "oct", "kid": "s", "k": "%s"}]}' % ("A" * 43))
    settings = AuthSettings(
        jwks=str(tmp_path / "jwks.json"), issuer=ISSUER, audience="*", algorithms="HS256", default_scopes="read:/"
    )
    claims = {"sub": "alice", "iss": ISSUER, "exp": int(time.time()) + 60}
    token = jwt.encode(claims, bytes(32), "HS256", headers={"kid": "s"})
    assert source(settings, asking(authorization=f"Bearer {token}")) == "token"


def test_without_tokens_nothing_of_theirs_is_loaded() -> None:
    code = "import sys, everbrook.server.auth.credentials; sys.exit('jwt' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
