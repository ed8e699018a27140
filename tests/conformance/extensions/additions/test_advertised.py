"""What a server says of itself: Stream-Extensions on every response, and headers that browsers may see and send."""

import pytest

from tests.conformance.extensions.client import Client, query
from tests.conformance.extensions.streams import BASE_ROOT, BUCKET_ROOT, Stream, fresh_name

NAMES = [
    "buckets", "snapshots", "bootstrap", "retention", "listing", "bounded-reads", "frames", "if-match", "registry",
    "producer-position", "incarnation",
]  # fmt: skip
REQUESTS = [
    ("GET", BUCKET_ROOT),
    ("GET", f"{BUCKET_ROOT}/none-such"),
    ("GET", f"{BUCKET_ROOT}/x"),
    ("GET", f"{BUCKET_ROOT}/none-such/s"),
    ("GET", f"{BASE_ROOT}/none-such"),
    ("HEAD", f"{BASE_ROOT}/none-such"),
    ("POST", f"{BASE_ROOT}/a//b"),
    ("PATCH", f"{BASE_ROOT}/none-such"),
    ("GET", f"{BASE_ROOT}/__ds/streams?limit=1"),
    ("GET", f"{BASE_ROOT}/none-such/__ds/bootstrap"),
    ("GET", "/healthz"),
    ("GET", "/nothing-here"),
]
EXPOSED = {
    "stream-extensions", "stream-snapshot-offset", "stream-earliest-offset", "stream-retention", "stream-offset",
    "content-digest", "etag",
}  # fmt: skip
ALLOWED = {"if-match", "if-none-match", "content-digest", "stream-snapshot-history", "stream-retention"}

pytestmark = pytest.mark.extension("buckets")


def listed(value: str) -> set[str]:
    return {name.strip().lower() for name in value.split(",")}


def test_every_response_names_the_extensions(client: Client) -> None:
    """Ours: Stream-Extensions on every response."""
    for method, path in REQUESTS:
        assert listed(client.request(method, path).headers["stream-extensions"]) >= set(NAMES)


def test_every_response_of_a_stream_but_that_to_an_append_names_the_extensions(stream: Stream) -> None:
    """Ours: Stream-Extensions on every response, so that any of them tells a client; appends are many and small."""
    offset = stream.append(b"one")
    head, _ = stream.client.follow(query(stream.path, offset="-1", live="sse"))
    answers = [head, stream.read(), stream.head(), stream.publish(offset), stream.latest()]
    answers += [stream.snapshot(offset), stream.bootstrap(), stream.read(offset=offset, live="long-poll")]
    answers += [stream.read(offset="-1"), stream.retain(offset), stream.delete()]
    assert [answer for answer in answers if listed(answer.headers.get("stream-extensions", "")) < set(NAMES)] == []


def test_responses_to_appends_do_not_name_the_extensions(stream: Stream) -> None:
    """Ours: the first ones are handled in full, and the next ones by what was prepared for their head."""
    assert [stream.post(b"two").headers.get("stream-extensions") for _ in range(4)] == [None] * 4


def test_pages_of_other_origins_see_the_headers_of_the_extensions(client: Client) -> None:
    """Ours: every response header of the protocol is exposed."""
    answer = client.get(f"{BASE_ROOT}/{fresh_name()}", origin="http://a.example")
    exposed = listed(answer.headers["access-control-expose-headers"])
    assert "*" in exposed or exposed >= EXPOSED


@pytest.mark.parametrize(
    "path", [f"{BASE_ROOT}/s", f"{BASE_ROOT}/s/__ds/bootstrap", BUCKET_ROOT, f"{BUCKET_ROOT}/b-b/s"]
)
def test_pages_of_other_origins_may_send_the_headers_of_the_extensions(client: Client, path: str) -> None:
    """Ours: preflights allow every protocol header."""
    answer = client.request("OPTIONS", path, origin="http://a.example", access_control_request_method="PUT")
    allowed = listed(answer.headers["access-control-allow-headers"])
    assert "*" in allowed or allowed >= ALLOWED
