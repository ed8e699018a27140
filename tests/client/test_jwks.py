"""The key set of a server: when it is fetched, and what of it is used (§6.5)."""

import asyncio
import base64
from collections.abc import Callable

import httpx2
import msgspec
import pytest
from hypothesis import given, strategies as st

from everbrook.client import Jwks
from everbrook.client.jwks import MAX_SET_BYTES, AsyncJwks, KeySet, KeysUnavailable, format_base64url, parse_base64url
from tests.client.keys import KEY, NOW, OTHER, URL, Key, Publisher, jwks, published
from tests.kit.generated import generated

Knowing = Callable[[str, float], KeySet]


def of_threads(publisher: Publisher) -> Knowing:
    return Jwks(URL, httpx2.Client(transport=httpx2.MockTransport(publisher))).knowing


def of_a_loop(publisher: Publisher) -> Knowing:
    keys = AsyncJwks(URL, httpx2.AsyncClient(transport=httpx2.MockTransport(publisher)))
    return lambda kid, now: asyncio.run(keys.knowing(kid, now))


@pytest.fixture
def publisher() -> Publisher:
    return Publisher(KEY)


@pytest.fixture(params=[of_threads, of_a_loop])
def knowing(request: pytest.FixtureRequest, publisher: Publisher) -> Knowing:
    """The key set as either kind keeps it."""
    found: Knowing = request.param(publisher)
    return found


def test_a_set_is_fetched_when_it_is_first_needed_and_then_kept(knowing: Knowing, publisher: Publisher) -> None:
    assert publisher.requests == []
    for later in (0, 1, 299):
        assert set(knowing("ds_one", NOW + later)) == {"ds_one"}
    assert len(publisher.requests) == 1
    assert publisher.requests[0].headers["cache-control"] == "no-cache"


def test_an_unknown_key_is_asked_for_at_most_once_a_minute(knowing: Knowing, publisher: Publisher) -> None:
    knowing("ds_one", NOW)
    asked = []
    for later in range(0, 181, 10):
        knowing(f"ds_{later}", NOW + later)
        asked.append(len(publisher.requests))
    assert asked == [1] * 6 + [2] * 6 + [3] * 6 + [4]


def test_a_rotation_is_noticed_by_its_first_signature(knowing: Knowing, publisher: Publisher) -> None:
    knowing("ds_one", NOW)
    publisher.document = jwks(OTHER, KEY)
    assert set(knowing("ds_two", NOW + 60)) == {"ds_one", "ds_two"}


def test_a_key_that_was_withdrawn_is_forgotten_after_a_while(knowing: Knowing, publisher: Publisher) -> None:
    knowing("ds_one", NOW)
    publisher.document = jwks(OTHER)
    assert set(knowing("ds_one", NOW + 299)) == {"ds_one"}
    assert set(knowing("ds_one", NOW + 300)) == {"ds_two"}


@pytest.mark.parametrize("failure", ["down", "status", "redirect", "nonsense", "huge"])
def test_a_server_that_fails_takes_nothing_away(knowing: Knowing, publisher: Publisher, failure: str) -> None:
    knowing("ds_one", NOW)
    publisher.down = failure == "down"
    publisher.status = {"status": 503, "redirect": 302}.get(failure, 200)
    publisher.document = {"nonsense": b"<html>", "huge": b'{"keys":[]}'.ljust(MAX_SET_BYTES + 1)}.get(failure, jwks())
    for later in (60, 300, 100_000):
        assert set(knowing("ds_other", NOW + later)) == {"ds_one"}
    assert len(publisher.requests) == 4


def test_a_server_that_was_never_reached_is_asked_again_soon(knowing: Knowing, publisher: Publisher) -> None:
    publisher.down = True
    for later in (0, 1, 4):
        with pytest.raises(KeysUnavailable, match="could not be fetched: nobody is there"):
            knowing("ds_one", NOW + later)
    assert len(publisher.requests) == 1
    publisher.down = False
    assert set(knowing("ds_one", NOW + 5)) == {"ds_one"}


def test_many_requests_at_once_cause_one_fetch(publisher: Publisher) -> None:
    async def main() -> None:
        async def slow(request: httpx2.Request) -> httpx2.Response:
            await asyncio.sleep(0)
            return publisher(request)

        async with httpx2.AsyncClient(transport=httpx2.MockTransport(slow)) as client:
            keys = AsyncJwks(URL, client)
            found = await asyncio.gather(*(keys.knowing("ds_one", NOW) for _ in range(20)))
        assert all(set(known) == {"ds_one"} for known in found)
        assert len(publisher.requests) == 1

    asyncio.run(main())


def test_a_set_is_fetched_over_a_socket_without_a_client_of_the_callers() -> None:
    with published(lambda: msgspec.json.encode(jwks(KEY))) as url:
        assert set(Jwks(url).knowing("ds_one", NOW)) == {"ds_one"}
        assert set(asyncio.run(AsyncJwks(url).knowing("ds_one", NOW))) == {"ds_one"}


def test_a_url_that_is_none_leaves_the_keys_unavailable() -> None:
    with pytest.raises(KeysUnavailable):
        Jwks("nonsense").knowing("ds_one", NOW)


@pytest.mark.parametrize(
    "changes",
    [
        {"kty": "EC"},
        {"kty": "RSA", "n": "x", "e": "AQAB"},
        {"crv": "X25519"},
        {"use": "enc"},
        {"x": "AAAA"},
        {"x": "!"},
        {"x": "ä"},
        {"x": None},
        {"kid": 1},
    ],
)
def test_keys_of_other_kinds_are_passed_over(changes: dict[str, object]) -> None:
    document = {"keys": [Key("odd").jwk(**changes), "no key", None, KEY.jwk()]}
    assert set(KeySet.parse(document)) == {"ds_one"}


def test_a_key_without_a_use_signs() -> None:
    bare = {name: value for name, value in KEY.jwk().items() if name not in {"use", "alg"}}
    assert set(KeySet.parse({"keys": [bare]})) == {"ds_one"}


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"keys":1}', b'{"keys":' + b"[" * 100_000, b"\xff"])
def test_what_is_no_key_set_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="must be a JSON object with a list of keys"):
        KeySet.decode(text)


@generated
@given(st.binary())
def test_base64url_that_is_written_is_read_back(data: bytes) -> None:
    text = format_base64url(data)
    assert parse_base64url(text) == data
    assert base64.urlsafe_b64decode(text + "==") == data


@pytest.mark.parametrize("text", ["A", "AB", "AA==", "AA=", "A A", "+/+/", "AAA\n", "ä", "=", "AA\x00A", "A" * 5])
def test_another_spelling_of_base64url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be unpadded base64url"):
        parse_base64url(text)
