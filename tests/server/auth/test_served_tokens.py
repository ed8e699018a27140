"""Tokens of an issuer, as a whole server takes them: through outages, rotations and the ends of tokens."""

import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from everbrook import Client, Retry
from everbrook.protocol.errors import TokenExpired
from everbrook.server.auth.key_pair import make_pair
from everbrook.server.tuning import AuthTuning, GuessTuning, IssuerTuning, ServerTuning, TokenTuning, WatchTuning
from tests.kit.issuer_server import AUDIENCE, ISSUER, Issuer, claims, jwks, mint, pair_of
from tests.kit.server_thread import RunningServer, eventually
from tests.kit.servers import Connect, Start
from tests.kit.wire import Wire

PATH = "/v1/stream/chats"
LOOKS_ALWAYS = WatchTuning(look_secs=0.0)
WATCHFUL = ServerTuning(auth=AuthTuning(watch=LOOKS_ALWAYS))


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer that has not come up yet."""
    issuer = Issuer(pair_of())
    with issuer:
        issuer.stop()
        yield issuer


@pytest.fixture
def guarded(issuer: Issuer, start: Start) -> RunningServer:
    """A server that asks its issuer often."""
    tuning = ServerTuning(auth=AuthTuning(issuer=IssuerTuning(retry_secs=(0.05,))))
    return start(tuning=tuning, auth__jwks=issuer.url, auth__issuer=ISSUER, auth__audience=AUDIENCE)


def status(wire: Wire, token: str) -> int:
    return wire.get(PATH, authorization=f"Bearer {token}").status


def test_a_server_that_starts_before_its_issuer_answers_503_and_recovers(
    guarded: RunningServer, issuer: Issuer, connect: Connect
) -> None:
    wire = connect(guarded)
    answer = wire.get(PATH, authorization=f"Bearer {mint()}")
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    issuer.start()
    assert eventually(lambda: status(wire, mint()) == 404)


def test_an_issuer_that_goes_down_takes_nothing_away(guarded: RunningServer, issuer: Issuer, connect: Connect) -> None:
    wire = connect(guarded)
    issuer.start()
    assert eventually(lambda: status(wire, mint()) == 404)
    issuer.stop()
    assert status(wire, mint()) == 404


def test_what_can_not_be_judged_is_no_reason_not_to_be_alive(guarded: RunningServer, connect: Connect) -> None:
    assert connect(guarded).get("/healthz").status == 200
    assert connect(guarded).get(PATH).status == 401


def test_a_key_that_leaves_the_file_takes_its_tokens_with_it(tmp_path: Path, start: Start, connect: Connect) -> None:
    file = tmp_path / "jwks.json"
    file.write_bytes(jwks(pair_of("RS256"), pair_of("ES256")))
    wire = connect(start(tuning=WATCHFUL, auth__jwks=str(file), auth__issuer=ISSUER, auth__audience=AUDIENCE))
    old, new = mint("RS256"), mint("ES256")
    assert (status(wire, old), status(wire, new)) == (404, 404)
    file.write_bytes(jwks(pair_of("ES256")))
    assert (status(wire, old), status(wire, new)) == (401, 404)


def test_a_live_read_ends_with_its_key_though_its_address_sends_bad_tokens(
    tmp_path: Path, start: Start, connect: Connect
) -> None:
    tokens = TokenTuning(guesses=GuessTuning(per_sec=0.01))
    tuning = ServerTuning(auth=AuthTuning(recheck_secs=0.2, watch=LOOKS_ALWAYS, tokens=tokens))
    file, replacing = tmp_path / "jwks.json", make_pair("ES256", "es256")
    file.write_bytes(jwks(pair_of("ES256")))
    server = start(tuning=tuning, auth__jwks=str(file), auth__issuer=ISSUER, auth__audience=AUDIENCE)
    wire, bearer = connect(server), f"Bearer {mint('ES256')}"
    wire.create(PATH, authorization=bearer)
    connect(server).follow(f"{PATH}?offset=now&live=sse", authorization=bearer)
    assert eventually(lambda: server.waiting(PATH) == 1)
    assert [status(wire, replacing.mint(claims())) for _ in range(2)] == [401, 429]
    file.write_bytes(jwks(replacing))
    assert eventually(lambda: server.waiting(PATH) == 0)


def test_an_odd_key_in_the_file_takes_nothing_from_the_others(tmp_path: Path, start: Start, connect: Connect) -> None:
    file, odd = tmp_path / "jwks.json", {"kty": "RSA", "kid": "odd", "use": ["sig"]}
    file.write_bytes(jwks(pair_of("RS256")))
    wire = connect(start(tuning=WATCHFUL, auth__jwks=str(file), auth__issuer=ISSUER, auth__audience=AUDIENCE))
    file.write_text(json.dumps({"keys": [odd, pair_of("RS256").jwk, pair_of("ES256").jwk]}))
    assert (status(wire, mint("RS256")), status(wire, mint("ES256"))) == (404, 404)


@pytest.fixture
def brief(tmp_path: Path, start: Start) -> RunningServer:
    """A server whose tokens end when they say, to the second."""
    (tmp_path / "jwks.json").write_bytes(jwks(pair_of()))
    return start(
        auth__jwks=str(tmp_path / "jwks.json"), auth__issuer=ISSUER, auth__audience=AUDIENCE, auth__leeway_secs=0.0
    )


def test_a_client_with_a_function_for_a_token_goes_on_when_tokens_end(brief: RunningServer) -> None:
    given: list[int] = []

    def token() -> str:
        given.append(int(time.time()) + 2)
        return mint(exp=given[-1])

    with Client(brief.origin, token=token) as client:
        stream = client.stream("chats", content_type="text/plain")
        stream.create()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            stream.append("x")
            time.sleep(0.2)
    assert len(given) >= 3
    assert all(early < late for early, late in pairwise(given))


def test_a_client_with_a_plain_token_is_told_that_it_has_ended(brief: RunningServer) -> None:
    with (
        Client(brief.origin, token=mint(exp=int(time.time()) - 1), retry=Retry(max_attempts=1)) as client,
        pytest.raises(TokenExpired, match="the token expired at"),
    ):
        client.stream("chats").read().all()
