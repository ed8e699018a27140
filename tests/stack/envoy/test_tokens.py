"""Who gets through: tokens that are good, and all those that are not."""

import time

import httpx2
import jwt
import pytest

from everbrook.server.auth.key_pair import make_pair
from everbrook.stack.envoy import TEST_NAME
from tests.stack.envoy.proxies import Proxy, unsigned

NOW = int(time.time())


def status(proxy: Proxy, authorization: str | None, path: str = "/v1/stream/tokens") -> int:
    """Ask with a token; whether the server was asked must go with the answer."""
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = httpx2.put(f"{proxy.url}{path}", headers=headers)
    assert bool(proxy.asked()) == (answer.status_code != 401)
    return answer.status_code


def test_a_good_token_gets_through(proxy: Proxy) -> None:
    assert status(proxy, f"Bearer {proxy.token()}") in {200, 201}


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW - 60},
        {"exp": None},
        {"nbf": NOW + 86_400},
        {"iss": "somebody-else"},
        {"iss": None},
        {"aud": "something-else"},
        {"aud": [f"{TEST_NAME}-2"]},
        {"aud": None},
    ],
    ids=" ".join,
)
def test_a_claim_that_is_not_good_does_not(proxy: Proxy, claims: dict[str, object]) -> None:
    # Envoy answers 403 where the audience is wrong, and 401 otherwise.
    answer = httpx2.put(f"{proxy.url}/v1/stream/tokens", headers={"Authorization": f"Bearer {proxy.token(**claims)}"})
    assert (answer.status_code, proxy.asked()) == (403 if "aud" in claims else 401, [])


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "bearer", "Bearer x.y.z", "Basic YWxpY2U6eA=="])
def test_no_token_does_not(proxy: Proxy, authorization: str | None) -> None:
    assert status(proxy, authorization) == 401


def test_a_token_whose_claims_were_changed_does_not(proxy: Proxy) -> None:
    head, _claims, signature = proxy.token().split(".")
    other = proxy.token(sub="bob").split(".")[1]
    assert status(proxy, f"Bearer {head}.{other}.{signature}") == 401


def test_a_token_without_a_signature_does_not(proxy: Proxy) -> None:
    assert status(proxy, f"Bearer {unsigned(proxy.token())}") == 401


def test_a_token_that_is_signed_with_the_public_key_does_not(proxy: Proxy) -> None:
    claims = jwt.decode(proxy.token(), options={"verify_signature": False})
    forged = jwt.encode(claims, proxy.pair.jwk["n"], algorithm="HS256", headers={"kid": proxy.pair.kid})
    assert status(proxy, f"Bearer {forged}") == 401


def test_a_token_of_another_key_does_not_whatever_it_calls_itself(proxy: Proxy) -> None:
    claims = jwt.decode(proxy.token(), options={"verify_signature": False})
    assert status(proxy, f"Bearer {make_pair().mint(claims, proxy.pair.kid)}") == 401


def test_a_token_in_the_url_does_not(proxy: Proxy) -> None:
    """It would be in every log on the way."""
    assert status(proxy, None, f"/v1/stream/tokens?access_token={proxy.token()}") == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v1/stream/__ds/jwks.json"])
def test_what_is_open_needs_no_token(proxy: Proxy, path: str) -> None:
    assert httpx2.get(f"{proxy.url}{path}").status_code == 200


def test_a_browser_may_ask_first(proxy: Proxy) -> None:
    asking = {"Origin": "https://app.example", "Access-Control-Request-Method": "PUT"}
    assert httpx2.options(f"{proxy.url}/v1/stream/tokens", headers=asking).status_code < 300


@pytest.mark.parametrize("action", ["callback", "ack", "release"])
def test_calls_with_a_token_of_the_servers_own_reach_it(proxy: Proxy, action: str) -> None:
    url = f"{proxy.url}/v1/stream/__ds/subscriptions/sub/{action}"
    httpx2.post(url, headers={"Authorization": "Bearer of-the-server"}, json={})
    assert [request.headers[b"authorization"] for request in proxy.asked()] == [b"Bearer of-the-server"]


def test_answers_to_those_with_a_token_are_not_for_shared_caches(client: httpx2.Client, path: str) -> None:
    client.post(path, content=b"hello", headers={"Content-Type": "text/plain"})
    assert "public" not in client.get(f"{path}?offset=-1").headers["Cache-Control"]
