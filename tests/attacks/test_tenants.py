"""Cross-tenant attacks: whatever Alice asks, by whatever route, nothing of Bob's comes back, nor that it is there."""

from pathlib import Path

import msgspec
import pytest

from everbrook.server.routes import Resource
from tests.attacks.tenants import BUCKET, SECRET, STREAM, SUBSCRIPTION, Tenants, sharing
from tests.kit.wire import Answer

METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE")
AT = f"{0:016d}"
BASE = "/v1/stream/__ds"

# What each resource of Bob's is called. It is there; the same URL with another name is not.
THEIRS: dict[Resource, list[str]] = {
    Resource.STREAM: [STREAM, f"{BUCKET}/secret", "/v1/stream/__registry__", "/v1/stream/bob"],
    Resource.SNAPSHOT: [f"{STREAM}/__ds/snapshot", f"{BUCKET}/secret/snapshot"],
    Resource.SNAPSHOT_AT: [f"{STREAM}/__ds/snapshot/{AT}", f"{BUCKET}/secret/snapshot/{AT}"],
    Resource.BOOTSTRAP: [
        f"{STREAM}/__ds/bootstrap",
        f"{BUCKET}/secret/bootstrap",
        "/v1/stream/__registry__/__ds/bootstrap",
    ],
    Resource.RETENTION: [f"{STREAM}/__ds/retention/{AT}", f"{BUCKET}/secret/retention/{AT}"],
    Resource.PRODUCERS: [f"{STREAM}/__ds/producers", f"{BUCKET}/secret/producers"],
    Resource.LISTING: [f"{BASE}/streams?prefix=bob", f"{BUCKET}/streams", f"{BUCKET}/__ds/streams"],
    Resource.JWKS: [],
    Resource.SUBSCRIPTIONS: [f"{BASE}/subscriptions", f"{BUCKET}/__ds/subscriptions"],
    Resource.SUBSCRIPTION: [f"{BASE}/subscriptions/{SUBSCRIPTION}", f"{BUCKET}/__ds/subscriptions/{SUBSCRIPTION}"],
    Resource.LINKS: [f"{BASE}/subscriptions/{SUBSCRIPTION}/streams"],
    Resource.LINK: [f"{BASE}/subscriptions/{SUBSCRIPTION}/streams/bob/secret"],
    Resource.CLAIM: [f"{BASE}/subscriptions/{SUBSCRIPTION}/claim", f"{BUCKET}/__ds/subscriptions/{SUBSCRIPTION}/claim"],
    Resource.CALLBACK: [f"{BASE}/subscriptions/{SUBSCRIPTION}/callback"],
    Resource.ACK: [f"{BUCKET}/__ds/subscriptions/{SUBSCRIPTION}/ack"],
    Resource.RELEASE: [f"{BUCKET}/__ds/subscriptions/{SUBSCRIPTION}/release"],
    Resource.BUCKET: [BUCKET],
    Resource.BUCKETS: [],
    Resource.QUOTA: [f"{BUCKET}/__ds/quota"],
}
OWN_TOKEN = {Resource.CALLBACK, Resource.ACK, Resource.RELEASE}
REPORT = b'{"wake_id": "w_1", "generation": 1}'
URLS = [(resource, url) for resource, urls in THEIRS.items() for url in urls]


def _elsewhere(url: str) -> str:
    """The same URL of something that is not there."""
    return url.replace("bob", "nob").replace(SUBSCRIPTION, "no-such")


def _document(body: bytes) -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(body)
    return found


def _streams(body: bytes) -> list[str]:
    entries = msgspec.json.decode(body)["streams"]
    return [entry["stream_id"] for entry in entries]


def test_every_resource_is_attacked() -> None:
    assert set(THEIRS) == set(Resource)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("resource, url", URLS)
def test_alice_is_refused_whatever_is_there(tenants: Tenants, method: str, resource: Resource, url: str) -> None:
    before = tenants.names()
    answer = tenants.ask(method, url, REPORT, content_type="application/json", authorization=tenants.alice)
    assert answer.status in ({401, 403} if resource in OWN_TOKEN else {403}), answer
    assert SECRET.encode() not in answer.body.replace(SUBSCRIPTION.encode(), b"")
    assert tenants.names() == before


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("url", [url for _, url in URLS])
def test_nobody_in_particular_is_asked_for_credentials(tenants: Tenants, method: str, url: str) -> None:
    answer = tenants.ask(method, url, REPORT, content_type="application/json")
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("url", [url for _, url in URLS])
def test_what_is_not_there_is_refused_in_the_same_words(tenants: Tenants, method: str, url: str) -> None:
    for authorization in ({"authorization": tenants.alice}, {}):
        there, not_there = (
            tenants.ask(method, each, REPORT, content_type="application/json", **authorization)
            for each in (url, _elsewhere(url))
        )
        assert there.status == not_there.status
        assert there.body.replace(b"bob", b"nob") == not_there.body.replace(b"bob", b"nob")


@pytest.mark.parametrize("query", ["", "?offset=-1", "?offset=now&live=long-poll", "?offset=-1&live=sse", "?frames=1"])
@pytest.mark.parametrize("stream", [STREAM, f"{BUCKET}/secret", "/v1/stream/__registry__"])
def test_no_way_of_reading_is_forgotten(tenants: Tenants, stream: str, query: str) -> None:
    assert tenants.ask("GET", stream + query, authorization=tenants.alice).status == 403
    assert tenants.ask("GET", stream + query).status == 401


@pytest.mark.parametrize("source", [STREAM, f"{BUCKET}/secret", "/v1/stream/nob/nothing", "/v1/stream/%62ob/secret"])
@pytest.mark.parametrize("fork", ["/v1/stream/alice/fork", "/ds/alices/fork"])
def test_what_may_not_be_read_may_not_be_forked(tenants: Tenants, fork: str, source: str) -> None:
    answer = tenants.ask("PUT", fork, stream_forked_from=source, authorization=tenants.alice)
    assert answer.refusal == (403, "forbidden")
    assert tenants.ask("GET", fork, authorization=tenants.alice).status == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_not_even_ones_own_quota_is_ones_own_to_move(tenants: Tenants, method: str) -> None:
    answer = tenants.ask(method, "/ds/alices/__ds/quota", b"{}", authorization=tenants.alice)
    assert answer.refusal == (403, "forbidden")


def test_a_quota_is_not_left_behind_by_deleting_its_bucket(tmp_path: Path) -> None:
    with sharing(tmp_path) as tenants:
        hers, root = {"authorization": tenants.alice}, {"authorization": tenants.root}
        tenants.ask("PUT", "/ds/alices/__ds/quota", b'{"max_bytes": 100}', **root)
        for method, path in (("DELETE", "/ds/alices/secret"), ("DELETE", "/ds/alices"), ("PUT", "/ds/alices")):
            assert tenants.ask(method, path, **hers).status in {201, 204}
        answer = tenants.ask("PUT", "/ds/alices/large", b"x" * 101, content_type="text/plain", **hers)
        assert answer.refusal == (413, "bucket_full")


def test_a_fork_of_what_is_hers_is_hers(tenants: Tenants) -> None:
    fork = {"stream_forked_from": "/v1/stream/alice/secret", "authorization": tenants.alice}
    assert tenants.ask("PUT", "/v1/stream/alice/copy", **fork).status == 201
    assert tenants.ask("PUT", "/v1/stream/bob/copy", **fork).refusal == (403, "forbidden")


def test_a_listing_tells_of_what_may_be_read(tenants: Tenants) -> None:
    everything = tenants.ask("GET", f"{BASE}/streams", authorization=tenants.root)
    hers = tenants.ask("GET", f"{BASE}/streams", authorization=tenants.alice)
    assert {"alice/secret", "bob/secret", "public/secret"} <= set(_streams(everything.body))
    assert {name.split("/")[0] for name in _streams(hers.body)} == {"alice", "public"}


def test_a_listing_in_pages_tells_of_nothing_else(tenants: Tenants) -> None:
    for name in ("alice", "alice-2", "alice/0", "alice0"):
        tenants.ask("PUT", f"/v1/stream/{name}", content_type="text/plain", authorization=tenants.root)
    found, after = [], ""
    while True:
        answer = tenants.ask("GET", f"{BASE}/streams?limit=1&after={after}", authorization=tenants.alice)
        found += _streams(answer.body)
        cursor = _document(answer.body)["next_cursor"]
        if cursor is None:
            break
        after = str(cursor)
    assert [name for name in found if name.split("/")[0] not in {"alice", "public"}] == []
    assert found == sorted(set(found))
    assert {"alice", "alice/0", "alice/secret", "public/secret"} <= set(found)


def test_what_moved_is_told_of_what_may_be_read(tenants: Tenants) -> None:
    token = _document(tenants.ask("GET", f"{BASE}/streams", authorization=tenants.alice).body)["token"]
    for name in ("alice", "bob"):
        tenants.ask("PUT", f"/v1/stream/{name}/moved", content_type="text/plain", authorization=tenants.root)
    moved = tenants.ask("GET", f"{BASE}/streams?changed_since={token}", authorization=tenants.alice)
    assert _streams(moved.body) == ["alice/moved"]


def test_everybody_is_told_of_what_is_public(tenants: Tenants) -> None:
    assert _streams(tenants.ask("GET", f"{BASE}/streams").body) == ["public/secret"]


@pytest.mark.parametrize("query", ["?prefix=bob", "?prefix=b", "?prefix=alice2", "?prefix=bob&changed_since=0-0"])
def test_a_listing_of_what_may_not_be_read_is_refused(tenants: Tenants, query: str) -> None:
    assert tenants.ask("GET", f"{BASE}/streams{query}", authorization=tenants.alice).refusal == (403, "forbidden")


def test_the_list_of_buckets_tells_of_what_may_be_read(tenants: Tenants) -> None:
    listed = [tenants.ask("GET", "/ds", authorization=each) for each in (tenants.root, tenants.alice)]
    ids = [[bucket["bucket_id"] for bucket in msgspec.json.decode(answer.body)["buckets"]] for answer in listed]
    assert ids == [["alices", "bobs"], ["alices"]]
    assert tenants.ask("GET", "/ds").status == 401


def test_the_public_keys_of_webhooks_tell_of_no_bucket(tenants: Tenants) -> None:
    answers = [tenants.ask("GET", f"/ds/{bucket}/__ds/jwks.json") for bucket in ("bobs", "nobs")]
    assert answers[0].status == answers[1].status == 200
    assert answers[0].body == answers[1].body


@pytest.mark.parametrize(
    "subscription",
    [
        {"type": "pull-wake", "wake_stream": "w", "streams": ["../bobs/secret"]},
        {"type": "pull-wake", "wake_stream": "w", "streams": ["/ds/bobs/secret"]},
        {"type": "pull-wake", "wake_stream": "../bobs/w", "streams": ["a"]},
        {"type": "pull-wake", "wake_stream": "w", "streams": ["..%2fbobs%2fsecret"]},
    ],
)
def test_a_subscription_reaches_nothing_outside_its_bucket(tenants: Tenants, subscription: dict[str, object]) -> None:
    before = tenants.names()
    answer = tenants.ask(
        "PUT",
        "/ds/alices/__ds/subscriptions/reach",
        msgspec.json.encode(subscription),
        content_type="application/json",
        authorization=tenants.alice,
    )
    assert answer.status == 400, answer
    assert tenants.names() == before


def test_a_pattern_of_everything_is_of_everything_in_the_bucket(tenants: Tenants) -> None:
    url, owner = "/ds/alices/__ds/subscriptions/all", {"authorization": tenants.alice}
    body = msgspec.json.encode({"type": "pull-wake", "wake_stream": "w", "pattern": "**"})
    assert tenants.ask("PUT", url, body, content_type="application/json", **owner).status == 201
    for stream, writer, claimed in ((f"{BUCKET}/secret", tenants.bob, 409), ("/ds/alices/secret", tenants.alice, 200)):
        tenants.ask("POST", stream, b"x", content_type="text/plain", authorization=writer)
        assert _claim(tenants, url).status == claimed


def _claim(tenants: Tenants, subscription: str) -> Answer:
    """Have Alice claim the work of a subscription."""
    body, owner = b'{"worker": "w"}', {"authorization": tenants.alice}
    return tenants.ask("POST", f"{subscription}/claim", body, content_type="application/json", **owner)


def test_a_token_of_one_subscription_is_none_of_another(tenants: Tenants) -> None:
    hers, owner = "/ds/alices/__ds/subscriptions/hers", {"authorization": tenants.alice}
    body = msgspec.json.encode({"type": "pull-wake", "wake_stream": "w", "pattern": "**"})
    assert tenants.ask("PUT", hers, body, content_type="application/json", **owner).status == 201
    tenants.ask("POST", "/ds/alices/secret", b"x", content_type="text/plain", **owner)
    claimed = _document(_claim(tenants, hers).body)
    report = msgspec.json.encode({"wake_id": claimed["wake_id"], "generation": claimed["generation"]})
    theirs = [f"{surface}/subscriptions/{SUBSCRIPTION}" for surface in (BASE, f"{BUCKET}/__ds")]
    answers = [
        tenants.ask("POST", f"{url}/ack", report, content_type="application/json", authorization=f"Bearer {token}")
        for token in (claimed["token"], "x")
        for url in theirs
    ]
    assert {answer.status for answer in answers} == {401}
    good = {"content_type": "application/json", "authorization": f"Bearer {claimed['token']}"}
    assert tenants.ask("POST", f"{hers}/ack", report, **good).status == 200


def test_bob_still_reads_what_is_his(tenants: Tenants) -> None:
    answer = tenants.ask("GET", STREAM, authorization=tenants.bob)
    assert answer.body == f"bob: {SECRET}".encode()


def test_an_answer_is_for_who_asked_and_kept_by_nobody_between(tenants: Tenants) -> None:
    answer = tenants.ask("GET", STREAM, authorization=tenants.bob)
    assert answer.headers["cache-control"].startswith("private,")
    assert "Authorization" in answer.headers["vary"]


def test_what_is_public_may_be_kept_by_everybody(tenants: Tenants) -> None:
    answer = tenants.ask("GET", "/v1/stream/public/secret")
    assert answer.headers["cache-control"].startswith("public,")
    assert "vary" not in answer.headers


def test_a_tag_of_what_may_not_be_read_confirms_nothing(tenants: Tenants) -> None:
    etag = tenants.ask("GET", STREAM, authorization=tenants.bob).headers["etag"]
    for tag in (etag, "*"):
        assert tenants.ask("GET", STREAM, if_none_match=tag, authorization=tenants.alice).status == 403


def test_where_a_browser_asks_beforehand_nothing_is_told(tenants: Tenants) -> None:
    there, not_there = (tenants.ask("OPTIONS", url) for url in (STREAM, _elsewhere(STREAM)))
    assert there.status == not_there.status == 204
    assert there.headers == {**not_there.headers, "date": there.headers["date"]}
