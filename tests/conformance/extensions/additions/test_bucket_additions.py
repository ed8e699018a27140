"""Buckets beyond 002: what they answer with, which refusal wins, forks, and the list of all buckets."""

import pytest

from tests.conformance.extensions.client import Client, query
from tests.conformance.extensions.streams import BASE_ROOT, BUCKET_ROOT, Namespace, Stream, fresh_name

pytestmark = pytest.mark.extension("buckets")


def forked(target: Stream, source: str) -> tuple[int, bytes]:
    """Fork a stream, and give the status and what the fork reads."""
    answer = target.put(stream_forked_from=source)
    return answer.status, target.read().body


# Metadata


def test_a_created_bucket_is_described_and_located(missing: Namespace) -> None:
    """Ours: 201 with the metadata as body, and its URL."""
    answer = missing.client.request("PUT", missing.path)
    assert answer.json == missing.client.get(missing.path).json
    assert missing.client.locate(answer, missing.path) == missing.path


def test_metadata_says_when_the_bucket_was_created_and_has_no_retention_by_itself(bucket: Namespace) -> None:
    """Ours: created_at_ms; retention only where there is one."""
    described = bucket.client.get(bucket.path).json
    assert set(described) == {"bucket_id", "streams", "subscriptions", "created_at_ms"}
    assert type(described["created_at_ms"]) is int


def test_head_of_a_bucket_has_no_body(bucket: Namespace, missing: Namespace) -> None:
    """Ours: HEAD as GET."""
    answers = [bucket.client.request("HEAD", path) for path in (bucket.path, missing.path, f"{BUCKET_ROOT}/abc")]
    assert [(answer.status, answer.body) for answer in answers] == [(200, b""), (404, b""), (400, b"")]


# Refusals


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_other_methods_on_a_bucket_are_405(bucket: Namespace, method: str) -> None:
    """Ours: 405 with Allow."""
    answer = bucket.client.request(method, bucket.path)
    assert answer.refusal == (405, "method_not_allowed")
    assert {"GET", "HEAD", "PUT", "DELETE"} <= {name.strip() for name in answer.headers["allow"].split(",")}


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_other_methods_on_the_listing_are_405(bucket: Namespace, method: str) -> None:
    """Ours: `streams` is reserved; GET is the listing, other methods 405."""
    assert bucket.client.request(method, f"{bucket.path}/streams").status == 405


@pytest.mark.parametrize("method", ["PUT", "GET", "POST", "DELETE"])
def test_the_control_segment_is_reserved(bucket: Namespace, method: str) -> None:
    """Ours: `__ds` is 404 as on the base surface."""
    body = b"x" if method in {"PUT", "POST"} else None
    assert bucket.client.request(method, f"{bucket.path}/__ds", body, content_type="text/plain").status == 404
    assert bucket.client.get(f"{bucket.path}/__ds/nothing").status == 404


@pytest.mark.parametrize("method", ["PUT", "GET", "HEAD", "POST", "DELETE"])
def test_an_invalid_stream_id_is_400_before_the_bucket_is_looked_for(missing: Namespace, method: str) -> None:
    """Ours: each violation 400, before any 404."""
    invalid = ["a%2Fb", "a%00b", "a..b", "s" * 123, "%FF", "%zz"]
    statuses = {written: missing.client.request(method, f"{missing.path}/{written}").status for written in invalid}
    assert statuses == dict.fromkeys(invalid, 400)


@pytest.mark.parametrize("rest", ["snapshot", "bootstrap", "snapshot/0000000000000000", "retention/0000000000000000"])
def test_an_invalid_id_is_400_on_sub_resources_too(missing: Namespace, rest: str) -> None:
    """Ours: each violation 400, before any 404."""
    assert missing.client.get(f"{missing.path}/a..b/{rest}").status == 400
    assert missing.client.get(f"{BUCKET_ROOT}/ABC/s/{rest}").status == 400


def test_refusals_about_buckets_have_codes_of_their_own(bucket: Namespace, missing: Namespace) -> None:
    """Ours: stable codes."""
    bucket.fresh()
    assert bucket.client.request("PUT", bucket.path).refusal == (409, "bucket_exists")
    assert bucket.client.request("DELETE", bucket.path).refusal == (409, "bucket_not_empty")
    assert missing.client.get(missing.path).refusal == (404, "bucket_not_found")
    assert missing.stream("s").put().refusal == (404, "bucket_not_found")
    assert bucket.client.get(f"{BUCKET_ROOT}/a.b.c.d").refusal == (400, "invalid_path")
    assert bucket.client.get(f"{bucket.path}/a..b").refusal == (400, "invalid_path")


# Forks


def test_a_fork_stays_in_the_bucket_of_its_source(bucket: Namespace) -> None:
    """Ours: fork sources must be in the same bucket."""
    source = bucket.fresh("text/plain", b"one")
    assert forked(bucket.stream("fork"), source.path) == (201, b"one")
    assert bucket.client.get(bucket.path).json["streams"] == 2


def test_a_fork_from_another_bucket_is_400(bucket: Namespace, missing: Namespace) -> None:
    """Ours: fork sources must be in the same bucket: else 400."""
    source = missing.make().fresh("text/plain", b"one")
    assert bucket.stream("fork").put(stream_forked_from=source.path).status == 400


def test_a_fork_from_the_other_surface_is_400(bucket: Namespace) -> None:
    """Ours: or both on the base surface."""
    base = Namespace(bucket.client, "base", fresh_name())
    here, there = bucket.fresh(), base.fresh()
    assert bucket.stream("fork").put(stream_forked_from=there.path).status == 400
    assert base.stream("fork").put(stream_forked_from=here.path).status == 400


def test_a_source_that_is_deleted_is_not_listed_but_keeps_its_bucket(bucket: Namespace) -> None:
    """Ours: soft-deleted streams are not listed; what a fork reads keeps its bucket."""
    source = bucket.stream("source").create("text/plain", b"one")
    fork = bucket.stream("fork")
    assert fork.put(stream_forked_from=source.path).status == 201
    source.delete()
    assert [entry["stream_id"] for entry in bucket.listed().json["streams"]] == ["fork"]
    assert bucket.client.request("DELETE", bucket.path).status == 409
    assert (fork.delete().status, bucket.client.request("DELETE", bucket.path).status) == (204, 204)


def test_an_expired_stream_does_not_keep_its_bucket(bucket: Namespace) -> None:
    """Ours: a bucket is empty when nothing is listed and no fork reads what was."""
    bucket.stream("over").create("text/plain", stream_expires_at="2001-01-01T00:00:00Z")
    assert bucket.client.request("DELETE", bucket.path).status == 204


# The two namespaces


def test_a_stream_on_one_surface_is_not_on_the_other(bucket: Namespace) -> None:
    """Ours: two namespaces."""
    bucket.stream("s").create("text/plain", b"bucket")
    assert bucket.client.get(f"{BASE_ROOT}/{bucket.name}/s").status == 404


# All buckets


def test_buckets_are_listed_in_order(client: Client) -> None:
    """Ours: GET /ds lists buckets by prefix, with a cursor and a limit."""
    prefix = fresh_name(12)
    for end in "cab":
        Namespace(client, "bucket", prefix + end).make()
    page = client.get(query(BUCKET_ROOT, prefix=prefix, limit=2)).json
    assert [entry["bucket_id"] for entry in page["buckets"]] == [prefix + "a", prefix + "b"]
    assert (page["has_more"], page["next_cursor"]) == (True, prefix + "b")
    last = client.get(query(BUCKET_ROOT, prefix=prefix, after=page["next_cursor"])).json
    assert [entry["bucket_id"] for entry in last["buckets"]] == [prefix + "c"]
    assert (last["has_more"], last["next_cursor"]) == (False, None)


def test_a_listed_bucket_says_when_it_was_created_and_what_it_retains(client: Client) -> None:
    """Ours: bucket_id, created_at_ms, and retention where there is one."""
    bucket = Namespace(client, "bucket", fresh_name()).make(stream_retention="max-messages=5")
    [entry] = client.get(query(BUCKET_ROOT, prefix=bucket.name)).json["buckets"]
    described = client.get(bucket.path).json
    assert entry == {name: described[name] for name in ("bucket_id", "created_at_ms", "retention")}
