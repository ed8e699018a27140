"""Attacks by tokens, against a whole server: whatever is sent, nobody becomes somebody, and nothing breaks."""

import base64
import hmac
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from everbrook.server.tuning import AuthTuning, GuessTuning, ServerTuning, TokenTuning
from tests.kit.issuer_server import AUDIENCE, ISSUER, Issuer, claims, jwks, mint, pair_of
from tests.kit.server_thread import RunningServer, configured
from tests.kit.wire import Answer, Wire

STREAM = "/v1/stream/secret"
OTHER = pair_of("RS256", "intruder")
FAR = 2**40


def _auth(folder: Path) -> dict[str, str]:
    path = folder / "jwks.json"
    path.write_bytes(jwks(pair_of("RS256"), pair_of("ES256"), pair_of("EdDSA")))
    return {"auth__jwks": str(path), "auth__issuer": ISSUER, "auth__audience": AUDIENCE}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that verifies any number of bad signatures: it refuses each of them for what it is."""
    auth, tokens = (
        _auth(tmp_path_factory.mktemp("keys")),
        TokenTuning(guesses=GuessTuning(per_sec=1e9, all_per_sec=1e9)),
    )
    tuning = ServerTuning(auth=AuthTuning(tokens=tokens))
    with RunningServer(configured(**auth), tuning=tuning) as running, running.connect() as wire:
        body, good = b"hidden", f"Bearer {mint()}"
        assert wire.request("PUT", STREAM, body, authorization=good, content_type="text/plain").status == 201
        yield running


@pytest.fixture
def wire(server: RunningServer) -> Iterator[Wire]:
    with server.connect() as connection:
        yield connection


def read(wire: Wire, token: str | bytes) -> Answer:
    text = token if isinstance(token, str) else token.decode()
    return wire.request("GET", STREAM, authorization=f"Bearer {text}")


def refused(answer: Answer) -> bool:
    return answer.status == 401 and b"hidden" not in answer.body and "Bearer" in answer.headers["www-authenticate"]


def segment(document: object) -> bytes:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=")


def signed(header: object, payload: object, algorithm: str = "RS256") -> bytes:
    """A token of any parts that the issuer itself has signed: what is refused then is not the signature."""
    message = segment(header) + b"." + segment(payload)
    return message + b"." + segment(jwt.get_algorithm_by_name(algorithm).sign(message, pair_of(algorithm).private))


HEADER = {"alg": "RS256", "kid": "rs256"}


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_good_token_is_good(wire: Wire, algorithm: str) -> None:
    """The control of everything below."""
    assert read(wire, mint(algorithm)).body == b"hidden"
    assert read(wire, signed(HEADER, claims())).body == b"hidden"


# Algorithms


def secrets_of_public_key() -> list[bytes]:
    """All that a library could take for the secret of an HMAC, given a public key."""
    public = pair_of().private.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    jwk = pair_of().jwk
    return [pem, pem.strip(), der, jwk["n"].encode(), json.dumps(jwk).encode(), jwks(pair_of()), b"", b"rs256"]


@pytest.mark.parametrize("secret", secrets_of_public_key(), ids=range(8))
@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_public_key_is_no_shared_secret(wire: Wire, algorithm: str, secret: bytes) -> None:
    message = segment({"alg": algorithm, "kid": "rs256"}) + b"." + segment(claims())
    digest = hmac.digest(secret, message, algorithm.replace("HS", "sha"))
    assert refused(read(wire, message + b"." + segment(digest)))


@pytest.mark.parametrize("name", ["none", "None", "NONE", "nOnE", "", "null", None, 0, [], ["none"], {"a": 1}, "RS257"])
@pytest.mark.parametrize("signature", [b"", b"AA"])
def test_a_token_without_a_signature_is_refused(wire: Wire, name: object, signature: bytes) -> None:
    for header in ({"alg": name, "kid": "rs256"}, {"alg": name}, {"kid": "rs256"}):
        assert refused(read(wire, segment(header) + b"." + segment(claims()) + b"." + signature))


@pytest.mark.parametrize("alg, kid", [("ES256", "rs256"), ("RS256", "es256"), ("EdDSA", "es256"), ("PS256", "rs256")])
def test_a_key_verifies_no_algorithm_but_its_own(wire: Wire, alg: str, kid: str) -> None:
    for signer in ("RS256", "ES256", "EdDSA", "PS256"):
        token = signed({"alg": alg, "kid": kid}, claims(), signer)
        assert refused(read(wire, token))


def test_a_signature_of_zeros_is_refused(wire: Wire) -> None:
    """Both numbers zero, which a broken verifier of ECDSA takes for good."""
    for zeros in (bytes(64), b"\x30\x06\x02\x01\x00\x02\x01\x00", b""):
        token = segment({"alg": "ES256", "kid": "es256"}) + b"." + segment(claims()) + b"." + segment(zeros)
        assert refused(read(wire, token))


# Keys that a token brings, or points to


def test_a_key_in_the_header_is_not_used(wire: Wire) -> None:
    """`jwk`, `x5c`: the intruder's own key, in the token that it has signed."""
    for kid in ("rs256", "intruder"):
        headers = {"kid": kid, "jwk": OTHER.jwk, "x5c": ["MIIB"], "x5t": "AA"}
        assert refused(read(wire, jwt.encode(claims(), OTHER.private, "RS256", headers=headers)))


@pytest.mark.parametrize("member", ["jku", "x5u"])
def test_a_url_in_the_header_is_not_fetched(wire: Wire, member: str) -> None:
    with Issuer(OTHER) as mine:
        headers = {"kid": "intruder", member: mine.url}
        assert refused(read(wire, jwt.encode(claims(), OTHER.private, "RS256", headers=headers)))
        assert mine.fetches == 0


KIDS = [
    "../../../../../dev/null",
    "/etc/hostname",
    "rs256' OR '1'='1",
    "rs256; cat /etc/passwd",
    "rs256\x00",
    "rs256\n",
    " rs256",
    "RS256",
    "",
    "\ud800",
    "k" * 257,
    "k" * 5000,
    "💥",
    0,
    None,
    True,
    [],
    ["rs256"],
    {"rs256": 1},
]


@pytest.mark.parametrize("kid", KIDS, ids=lambda kid: ascii(kid)[:24])
def test_a_strange_key_id_finds_no_key(wire: Wire, kid: object) -> None:
    for secret in (b"", bytes(32)):
        message = segment({"alg": "HS256", "kid": kid}) + b"." + segment(claims())
        assert refused(read(wire, message + b"." + segment(hmac.digest(secret, message, "sha256"))))
    message = segment({"alg": "RS256", "kid": kid}) + b"." + segment(claims())
    signature = jwt.get_algorithm_by_name("RS256").sign(message, OTHER.private)
    assert refused(read(wire, message + b"." + segment(signature)))


def test_a_flood_of_unknown_keys_does_not_reach_the_issuer(tmp_path: Path) -> None:
    with Issuer(pair_of()) as issuer:
        auth = {"auth__jwks": issuer.url, "auth__issuer": ISSUER, "auth__audience": AUDIENCE}
        with RunningServer(configured(**auth)) as running, running.connect() as wire:
            while read(wire, mint()).status == 503:
                time.sleep(0.01)
            statuses = {read(wire, OTHER.mint(claims(), kid=f"flood-{number}")).status for number in range(500)}
            assert read(wire, mint()).status == 404
        assert statuses <= {401, 503}
        assert issuer.fetches <= 2


# Claims

WRONG = {
    "over": {"exp": 1},
    "over by more than the leeway": {"exp": int(time.time()) - 60},
    "no end": {"exp": None},
    "end is text": {"exp": str(FAR)},
    "end is a list": {"exp": [FAR]},
    "end is true": {"exp": True},
    "end is negative": {"exp": -1},
    "end is beyond all times": {"exp": 10**30},
    "not begun": {"nbf": FAR},
    "begin is text": {"nbf": "0"},
    "begin is beyond all times": {"nbf": 10**300},
    "other issuer": {"iss": "https://evil.example"},
    "issuer with a slash": {"iss": ISSUER + "/"},
    "issuer in capitals": {"iss": ISSUER.upper()},
    "no issuer": {"iss": None},
    "list of issuers": {"iss": [ISSUER]},
    "other audience": {"aud": "other"},
    "longer audience": {"aud": AUDIENCE + "2"},
    "part of the audience": {"aud": AUDIENCE[:-1]},
    "no audience": {"aud": None},
    "empty audience": {"aud": []},
    "audience is an object": {"aud": {AUDIENCE: 1}},
    "audiences of many types": {"aud": [AUDIENCE, 1]},
    "no subject": {"sub": None},
    "empty subject": {"sub": ""},
    "subject is a number": {"sub": 1},
    "subject is a list": {"sub": ["alice"]},
    "subject of two lines": {"sub": "alice\r\nX-Admin: yes"},
    "long subject": {"sub": "a" * 300},
    "scopes are an object": {"scope": {"admin:/": 1}},
    "scopes are numbers": {"scope": [1]},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_a_signed_token_that_says_the_wrong_thing_is_refused(wire: Wire, changes: dict[str, object]) -> None:
    assert refused(read(wire, signed(HEADER, claims(**changes))))


@pytest.mark.parametrize("number", ["1e999", "NaN", "Infinity", "9" * 5000], ids=lambda text: text[:8])
def test_numbers_that_are_none_are_refused(wire: Wire, number: str) -> None:
    payload = json.dumps(claims()).replace(f'"exp": {claims()["exp"]}', f'"exp": {number}').encode()
    assert number.encode() in payload
    assert refused(read(wire, signed(HEADER, payload)))


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_what_is_not_json_is_refused_also_where_nobody_looks(wire: Wire, constant: str) -> None:
    payload = json.dumps(claims(other=0)).replace('"other": 0', f'"other": {constant}').encode()
    assert constant.encode() in payload
    assert refused(read(wire, signed(HEADER, payload)))


@pytest.mark.parametrize("name", ["sub", "exp", "iss", "aud", "scope"])
def test_a_claim_that_comes_twice_is_refused(wire: Wire, name: str) -> None:
    """Two readers, a proxy and us, could each take another one."""
    payload = json.dumps(claims()).encode()
    again = json.dumps({name: claims()[name]}).encode()
    assert refused(read(wire, signed(HEADER, payload[:-1] + b"," + again[1:])))


def test_a_header_name_that_comes_twice_is_refused(wire: Wire) -> None:
    assert refused(read(wire, signed(b'{"alg":"none","alg":"RS256","kid":"rs256"}', claims())))


@pytest.mark.parametrize("extra", [{"crit": ["exp"]}, {"crit": []}, {"b64": False, "crit": ["b64"]}, {"b64": False}])
def test_extensions_that_nobody_knows_are_refused(wire: Wire, extra: dict[str, object]) -> None:
    assert refused(read(wire, signed(HEADER | extra, claims())))


# Texts that are no tokens


def test_every_single_changed_character_is_refused(wire: Wire) -> None:
    token = mint("EdDSA")
    for position in range(0, len(token), 3):
        other = "A" if token[position] != "A" else "B"
        assert refused(read(wire, token[:position] + other + token[position + 1 :])), position


@pytest.mark.parametrize(
    "nested", ["[" * 3000, '{"a":' * 1200, "[" * 2500 + "]" * 2500], ids=["list", "object", "closed"]
)
def test_deep_json_is_refused(wire: Wire, nested: str) -> None:
    assert refused(read(wire, signed(nested.encode(), claims())))
    assert refused(read(wire, signed(HEADER, nested.encode())))


@pytest.mark.parametrize("length", [8193, 20_000])
def test_a_token_that_is_too_large_is_refused(wire: Wire, length: int) -> None:
    assert refused(read(wire, mint(pad="x" * length)))


MALFORMED: list[Callable[[str], str]] = [
    lambda token: token + ".",
    lambda token: "." + token,
    lambda token: token + "." + token,
    lambda token: token.rsplit(".", 1)[0],
    lambda token: token.rsplit(".", 1)[0] + ".",
    lambda token: token.replace(".", ".."),
    lambda token: token + "=",
    lambda token: token + "AAAA",
    lambda token: token.replace(".", "%2E"),
    lambda token: token.split(".")[1],
    lambda _: "..",
    lambda _: "eyJ",
    lambda token: '{"payload":"' + token + '"}',
]


@pytest.mark.parametrize("spoil", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_token_is_refused(wire: Wire, spoil: Callable[[str], str]) -> None:
    assert refused(read(wire, spoil(mint())))


def test_an_authorization_that_comes_twice_is_refused(wire: Wire) -> None:
    line = f"Authorization: Bearer {mint()}\r\n".encode()
    wire.send(b"GET %b HTTP/1.1\r\nHost: h\r\n%b%b\r\n" % (STREAM.encode(), line, line))
    assert refused(wire.read())


def test_a_token_in_the_query_or_a_cookie_is_none(wire: Wire) -> None:
    """Queries end up in logs, and cookies are sent by other people's pages."""
    assert wire.request("GET", f"{STREAM}?access_token={mint()}").status == 401
    assert wire.request("GET", STREAM, cookie=f"token={mint()}").status == 401


def test_who_guesses_signatures_waits_and_others_do_not(tmp_path: Path) -> None:
    known, bad = mint("ES256"), f"{mint('ES256').rpartition('.')[0]}.{'A' * 86}"
    with RunningServer(configured(**_auth(tmp_path))) as server, server.connect() as wire:
        assert read(wire, known).status == 404
        answers = [read(wire, bad) for _ in range(60)]
        assert {answer.status for answer in answers} == {401, 429}
        assert answers[-1].headers["retry-after"] == "1"
        assert read(wire, known).status == 404
