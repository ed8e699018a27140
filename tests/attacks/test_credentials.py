"""Attacks by API keys and signed URLs: guesses learn nothing, and what was signed can't be made into something else."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

import pytest
from msgspec.structs import replace

from everbrook.protocol.errors import TokenInvalid
from everbrook.server.auth import api_keys, signed_urls
from everbrook.server.auth.api_keys import ApiKeyFile, ApiKeys, make_key
from everbrook.server.auth.signed_urls import SignedUrls, UrlKeyFile, sign
from everbrook.server.exchange import Request
from tests.kit.server_process import serving
from tests.kit.server_thread import RunningServer, configured
from tests.kit.wire import Wire

STREAM = "/v1/stream/secret"
NAME = STREAM.encode()
ADMIN, ADMIN_STORED = make_key("admin:/", 0)
URL_KEY = signed_urls.make_key(0)
ROUNDS = 1500


def soon() -> int:
    return int(time.time()) + 600


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of keys."""
    folder = tmp_path_factory.mktemp("keys")
    (folder / "api.json").write_bytes(api_keys.format_file(ApiKeyFile((ADMIN_STORED,))))
    (folder / "urls.json").write_bytes(signed_urls.format_file(UrlKeyFile((URL_KEY,))))
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    files = {"auth__api_keys_path": str(folder / "api.json"), "auth__url_keys_path": str(folder / "urls.json")}
    with RunningServer(configured(**files)) as running, running.connect() as wire:
        for path in (STREAM, f"{STREAM}/below", f"{STREAM}2"):
            assert wire.create(path, body=b"hidden", authorization=f"Bearer {ADMIN}").status == 201
        yield running


@pytest.fixture
def wire(server: RunningServer) -> Iterator[Wire]:
    with server.connect() as connection:
        yield connection


# Signed URLs


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_signed_url_reads(wire: Wire, method: str) -> None:
    """The control of what follows."""
    target = f"{STREAM}?{sign(NAME, soon(), URL_KEY)}"
    if method == "GET":
        assert wire.get(f"{target}&offset=-1").body == b"hidden"
    else:
        assert wire.ask("HEAD", target).read(head_only=True).status == 200


def test_a_signed_url_follows(wire: Wire) -> None:
    follower = wire.follow(f"{STREAM}?offset=-1&live=sse&{sign(NAME, soon(), URL_KEY)}")
    assert follower.data() == b"hidden"


@pytest.mark.parametrize("method, body", [("POST", b"x"), ("PUT", b"x"), ("DELETE", None), ("PATCH", b"x")])
def test_a_signed_url_does_nothing_but_read(wire: Wire, method: str, body: bytes | None) -> None:
    target = f"{STREAM}?{sign(NAME, soon(), URL_KEY)}"
    assert wire.request(method, target, body, content_type="text/plain").status in {401, 403}
    assert wire.get(STREAM, authorization=f"Bearer {ADMIN}").body == b"hidden"


@pytest.mark.parametrize(
    "path",
    [
        f"{STREAM}/below",
        f"{STREAM}2",
        f"{STREAM}%2Fbelow",
        f"{STREAM}/../secret2",
        f"{STREAM}%32",
        f"{STREAM}/",
        "/v1/stream/__ds/streams",
        "/v1/stream/__ds/subscriptions",
        f"{STREAM}/__ds/producers",
        "/ds",
        "/metrics",
        "/v1/stream/",
    ],
)
def test_a_signed_url_reaches_nothing_else(wire: Wire, path: str) -> None:
    answer = wire.get(f"{path}?{sign(NAME, soon(), URL_KEY)}")
    assert answer.status in {400, 401, 403, 404}
    assert b"hidden" not in answer.body


@pytest.mark.parametrize(
    "change",
    [
        lambda query: query.replace("expires=1", "expires=9"),
        lambda query: query.replace("key=", "key=0"),
        lambda query: query[:-1] + ("A" if query[-1] != "A" else "B"),
        lambda query: query[:-1],
        lambda query: query + "=",
        lambda query: query.upper(),
        lambda query: query.replace("signature", "Signature"),
        lambda query: f"{query}&expires={2**33}",
        lambda query: f"expires={2**33}&{query}",
        lambda query: query.replace("&", ";"),
        lambda query: query.split("&signature=")[0] + "&signature=",
        lambda query: query.replace("expires=", "expires=%30"),
    ],
    ids=range(12),
)
def test_a_signed_url_that_was_changed_is_refused(wire: Wire, change: Callable[[str], str]) -> None:
    answer = wire.get(f"{STREAM}?{change(sign(NAME, soon(), URL_KEY))}")
    assert answer.status in {400, 401}
    assert b"hidden" not in answer.body


def test_a_bad_token_is_not_passed_over_for_a_signed_url(wire: Wire) -> None:
    assert wire.get(f"{STREAM}?{sign(NAME, soon(), URL_KEY)}", authorization="Bearer eb_bad").status == 401


def test_a_forked_stream_can_not_be_made_by_a_signed_url(wire: Wire) -> None:
    name = b"/v1/stream/stolen"
    target = f"/v1/stream/stolen?{sign(name, soon(), URL_KEY)}"
    assert wire.request("PUT", target, stream_forked_from=STREAM).status == 403


# Time


def naive(one: str | bytes, other: str | bytes) -> bool:
    """Compare as nobody should: until the first difference."""
    if len(one) != len(other):
        return False
    return all(one[position] == other[position] for position in range(len(one)))


def difference_ns(early: Callable[[], None], late: Callable[[], None]) -> float:
    """By how much the second takes longer than the first: medians of turns about, so that a busy machine is fair."""
    times: tuple[list[int], list[int]] = ([], [])
    for number in range(2 * ROUNDS):
        act = (early, late)[number % 2]
        began = time.perf_counter_ns()
        act()
        times[number % 2].append(time.perf_counter_ns() - began)
    return median(times[1]) - median(times[0])


def expect_refusal(identify: Callable[[], object]) -> Callable[[], None]:
    def act() -> None:
        try:
            identify()
        except TokenInvalid:
            return
        raise AssertionError("it was accepted")

    return act


def changed(text: str, position: int) -> str:
    other = "0" if text[position] != "0" else "1"
    return text[:position] + other + text[position + 1 :] if position >= 0 else text[:position] + other


@pytest.mark.timing
def test_the_time_of_a_refused_api_key_does_not_tell_how_much_of_it_is_right(tmp_path: Path) -> None:
    """The stored hashes differ from that of the key in their first or their last character."""
    key, stored = make_key("read:/", 0)

    def difference(name: str, open_keys: Callable[[str], ApiKeys]) -> float:
        asked = []
        for position in (0, len(stored.sha256) - 1):
            path = tmp_path / f"{name}-{position}.json"
            wrong = replace(stored, sha256=changed(stored.sha256, position))
            path.write_bytes(api_keys.format_file(ApiKeyFile((wrong,))))
            keys = open_keys(str(path))
            asked.append(expect_refusal(lambda keys=keys: keys.identify(key.encode())))  # type: ignore[misc]
        return difference_ns(*asked)

    ours, control = difference("ours", ApiKeys), difference("naive", partial(ApiKeys, is_equal=naive))
    assert control > 1000, "the control shows nothing, so this test can't either"
    assert abs(ours) < control / 4


@pytest.mark.timing
def test_the_time_of_a_refused_url_does_not_tell_how_much_of_its_signature_is_right(folder: Path) -> None:
    query = sign(NAME, soon(), URL_KEY)
    start = query.index("signature=") + len("signature=")

    def asking(position: int, urls: SignedUrls) -> Callable[[], None]:
        request = Request(b"GET", NAME, changed(query, position).encode(), {}, b"")
        return expect_refusal(lambda: urls.identify(request))

    def difference(urls: SignedUrls) -> float:
        return difference_ns(asking(start, urls), asking(len(query) - 1, urls))

    path = str(folder / "urls.json")
    ours, control = difference(SignedUrls(path)), difference(SignedUrls(path, is_equal=naive))
    assert control > 1000, "the control shows nothing, so this test can't either"
    assert abs(ours) < control / 4


# Logs


def test_no_credential_is_ever_logged(folder: Path, tmp_path: Path) -> None:
    """At the highest level, through good and bad requests, on both outputs, nor told in an answer."""
    query = sign(NAME, soon(), URL_KEY)
    bad_key, bad_query = ADMIN[:-3] + "xyz", query[:-3] + "xyz"
    settings = {
        "DS_AUTH__API_KEYS_PATH": str(folder / "api.json"),
        "DS_AUTH__URL_KEYS_PATH": str(folder / "urls.json"),
        "DS_LOG__REQUESTS": "all",
        "DS_AUDIT__TO": "log",
        "RUST_LOG": "trace",
    }
    answers = b""
    with serving(tmp_path, **settings) as server:
        with server.connect() as wire:
            for authorization in (f"Bearer {ADMIN}", f"Bearer {bad_key}", "Bearer tok.en.secret", "Basic c2VjcmV0"):
                for method in ("PUT", "GET"):
                    answers += wire.request(method, STREAM, authorization=authorization).body
            for given in (query, bad_query, query.replace("key=", "key=0")):
                answers += wire.get(f"{STREAM}?{given}").body
        code, out, err = server.stop().ended()
    said = out + err + answers.decode()
    assert (code, STREAM in err) == (0, True)
    for secret in (ADMIN[16:], bad_key[16:], "tok.en", "c2VjcmV0", query[-40:], bad_query[-40:], URL_KEY.secret):
        assert secret not in said
