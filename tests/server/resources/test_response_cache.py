"""The cache of responses: a request whose head is known gets what any other gets."""

from uuid import uuid4

from hypothesis import HealthCheck, given, settings, strategies as st

from everbrook.protocol import Head, Identity
from everbrook.server.exchange import Response
from everbrook.server.resources.response_cache import ENTRY_BYTES, ResponseCache
from everbrook.server.tuning import ResponseCacheTuning
from tests.kit.server_thread import RunningServer
from tests.kit.wire import Answer, Wire

KEY = (b"GET", b"/v1/stream/s", b"", b"", b"", False, b"")
HEAD = Head(Identity(b"s", 1, b"text/plain", b"text/plain", 0), 5, 0)


def cache(max_bytes: int = 1 << 20, max_entry_bytes: int = 1 << 20) -> ResponseCache:
    return ResponseCache(ResponseCacheTuning(max_bytes=max_bytes, max_entry_bytes=max_entry_bytes))


def test_a_response_is_found_while_the_head_is_the_same() -> None:
    kept, response = cache(), Response(200, b"", b"hello")
    kept.put(KEY, HEAD, response, whole=False)
    assert kept.find(KEY, HEAD) is response
    assert kept.find(KEY, Head(HEAD.identity, 6, 0)) is None


def test_a_whole_page_outlives_appends_but_not_the_stream() -> None:
    kept, response = cache(), Response(200, b"", b"hello")
    kept.put(KEY, HEAD, response, whole=True)
    assert kept.find(KEY, Head(HEAD.identity, 6, 0, kept=HEAD.kept)) is response
    another = Identity(b"s", 2, b"text/plain", b"text/plain", 0)
    assert kept.find(KEY, Head(another, 6, 0, kept=HEAD.kept)) is None


def test_the_least_recently_used_responses_are_dropped() -> None:
    kept, body = cache(max_bytes=3 * (ENTRY_BYTES + len(b"GETs0") + 100)), bytes(100)
    keys = [(b"GET", b"s%d" % number, b"", b"", b"", False, b"") for number in range(4)]
    for key in keys[:3]:
        kept.put(key, HEAD, Response(200, b"", body), whole=True)
    assert kept.find(keys[0], HEAD)
    kept.put(keys[3], HEAD, Response(200, b"", body), whole=True)
    assert [bool(kept.find(key, HEAD)) for key in keys] == [True, False, True, True]


def test_a_large_response_is_not_kept_and_replaces_none() -> None:
    kept = cache(max_entry_bytes=ENTRY_BYTES + len(b"GET/v1/stream/s") + 10)
    kept.put(KEY, HEAD, Response(200, b"", bytes(10)), whole=True)
    kept.put(KEY, HEAD, Response(200, b"", bytes(11)), whole=True)
    assert kept.find(KEY, HEAD) is None


def test_the_memory_of_long_keys_is_bounded() -> None:
    kept, long = cache(max_bytes=4000), bytes(1000)
    keys = [(b"GET", b"/v1/stream/s", b"", b"%d" % number + long, b"", False, b"") for number in range(4)]
    for key in keys:
        kept.put(key, HEAD, Response(200, b""), whole=True)
    assert [bool(kept.find(key, HEAD)) for key in keys] == [False, False, True, True]


# On a server: known requests beside ones that are not

QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
changes = st.lists(
    st.sampled_from(["append", "batch", "close", "delete", "create", "create with ttl", "snapshot", "cut"]), max_size=12
)
READS = (
    ("GET", ""),
    ("GET", "?offset=-1"),
    ("GET", "?offset=now"),
    ("GET", "?offset=0000000000000002"),
    ("GET", "?offset=0000000000000003&max_bytes=1"),
    ("GET", "?last=1"),
    ("HEAD", ""),
    ("HEAD", "?offset=0000000000000002"),
)


HEADERS: tuple[dict[str, str], ...] = (
    {},
    {"authorization": "Bearer of-a-proxy"},
    {"stream_incarnation": "0"},
    {"origin": "http://localhost"},
    {"accept_encoding": "gzip"},
    {"if_none_match": "*"},
)


def comparable(answer: Answer) -> tuple[int, dict[str, str], bytes]:
    headers = {name: value for name, value in answer.headers.items() if name != "date"}
    if answer.status >= 400:
        # A problem document may name the request.
        return answer.status, {"cache-control": headers.get("cache-control", "")}, b""
    return answer.status, headers, answer.body


def change(wire: Wire, path: str, kind: str) -> None:
    match kind:
        case "append":
            wire.append(path, b"xy")
        case "batch":
            wire.append(path, b"abc" * 5)
        case "close":
            wire.request("POST", path, stream_closed="true")
        case "delete":
            wire.request("DELETE", path)
        case "create":
            wire.request("PUT", path, b"hello", content_type="text/plain")
        case "create with ttl":
            wire.request("PUT", path, b"hello", content_type="text/plain", stream_ttl="1000")
        case "snapshot":
            tail = wire.request("HEAD", path).headers.get("stream-next-offset")
            wire.request("PUT", f"{path}/__ds/snapshot/{tail}", b"state", content_type="text/plain")
        case "cut":
            tail = wire.request("HEAD", path).headers.get("stream-next-offset")
            wire.request("PUT", f"{path}/__ds/retention/{tail}")


@QUICK
@given(changes)
def test_known_reads_see_every_change(server: RunningServer, kinds: list[str]) -> None:
    path, strangers = f"/v1/stream/{uuid4()}", 0
    with server.connect() as known, server.connect() as other:
        other.request("PUT", path, b"hello", content_type="text/plain")
        for kind in ["nothing", "nothing", *kinds]:
            change(other, path, kind)
            for method, query in READS:
                for headers in HEADERS:
                    strangers += 1
                    unknown = other.request(method, path + query, **headers, **{f"x_{strangers}": "1"})
                    assert comparable(known.request(method, path + query, **headers)) == comparable(unknown)
