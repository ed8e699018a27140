"""Listing the streams of a bucket (002 §1.4)."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.extensions.client import Client, query
from tests.conformance.extensions.streams import BUCKET_ROOT, Namespace
from tests.conformance.extensions.test_identifiers import INVALID_BUCKETS

CREATORS = 8


def ids(bucket: Namespace, **parameters: object) -> list[str]:
    """The ids on a page of a bucket's listing."""
    answer = bucket.listed(**parameters)
    assert answer.status == 200, answer
    return [entry["stream_id"] for entry in answer.json["streams"]]


def fill(bucket: Namespace, *stream_ids: str) -> Namespace:
    for stream_id in stream_ids:
        bucket.stream(stream_id).create()
    return bucket


def fill_quickly(bucket: Namespace, count: int) -> None:
    """Create many streams over several connections."""

    def create(first: int) -> None:
        with Client(bucket.client.base_url) as client:
            mine = Namespace(client, "bucket", bucket.name)
            fill(mine, *(f"s-{number:04}" for number in range(first, count, CREATORS)))

    with ThreadPoolExecutor(CREATORS) as threads:
        list(threads.map(create, range(CREATORS)))


# Parameters


def test_a_prefix_chooses_streams(bucket: Namespace) -> None:
    """002 §1.4: prefix filters bucket-local stream IDs by prefix."""
    fill(bucket, "user-1", "user-2", "use", "User-3", "other")
    assert ids(bucket, prefix="user-") == ["user-1", "user-2"]
    assert ids(bucket, prefix="nobody") == []


@pytest.mark.parametrize("prefix, found", [("a%", "a%b"), ("a&b=", "a&b=c"), ("é", "éa"), ("a +", "a +b")])
def test_a_prefix_may_hold_any_characters(bucket: Namespace, prefix: str, found: str) -> None:
    """002 §1.4: prefix filters bucket-local stream IDs by prefix."""
    fill(bucket, found, "b")
    assert ids(bucket, prefix=prefix) == [found]
    assert bucket.listed(prefix=prefix).json["prefix"] == prefix


def test_without_a_prefix_every_stream_is_listed(bucket: Namespace) -> None:
    """002 §1.4: when omitted, all bucket-local stream IDs are eligible."""
    assert ids(fill(bucket, "b", "a", "~")) == ids(bucket, prefix="") == ["a", "b", "~"]


def test_a_page_begins_after_the_cursor(bucket: Namespace) -> None:
    """002 §1.4: after is an exclusive cursor over bucket-local stream IDs."""
    fill(bucket, "a", "b", "c")
    assert ids(bucket, after="a") == ["b", "c"]
    assert ids(bucket, after="aa") == ["b", "c"]
    assert ids(bucket, after="c") == []


def test_a_cursor_works_together_with_a_prefix(bucket: Namespace) -> None:
    """002 §1.4: after is an exclusive cursor over bucket-local stream IDs."""
    fill(bucket, "a-1", "a-2", "a-3", "b-1")
    assert ids(bucket, prefix="a-", after="a-1") == ["a-2", "a-3"]
    assert ids(bucket, prefix="b-", after="a-1") == ["b-1"]
    assert ids(bucket, prefix="a-", after="b") == []


def test_a_page_holds_a_thousand_streams_unless_told_otherwise(bucket: Namespace) -> None:
    """002 §1.4: limit defaults to 1000."""
    fill_quickly(bucket, 1001)
    page = bucket.listed().json
    assert (len(page["streams"]), page["has_more"], page["next_cursor"]) == (1000, True, "s-0999")
    assert ids(bucket, after=page["next_cursor"]) == ["s-1000"]
    assert bucket.listed(limit=1000).json["streams"] == page["streams"]


@pytest.mark.parametrize("limit", [1, 2, 1000])
def test_a_limit_of_1_to_1000_bounds_a_page(bucket: Namespace, limit: int) -> None:
    """002 §1.4: limit must be in 1..=1000."""
    fill(bucket, "a", "b", "c")
    assert ids(bucket, limit=limit) == ["a", "b", "c"][:limit]


# The answer


def test_a_listing_has_the_fields_of_the_text(bucket: Namespace) -> None:
    """002 §1.4: the response body."""
    fill(bucket, "user-1", "user-2", "x")
    page = bucket.listed(prefix="user-").json
    assert page["bucket_id"] == bucket.name
    assert page["prefix"] == "user-"
    assert page["stream_count"] == len(page["streams"]) == 2
    assert page["has_more"] is False


def test_an_entry_has_the_fields_of_the_text(bucket: Namespace) -> None:
    """002 §1.4: the response body."""
    before = time.time_ns() // 1_000_000
    stream = bucket.stream("user-1").create("text/plain")
    tail = stream.append(b"some words")
    [entry] = bucket.listed().json["streams"]
    assert {name: type(value) for name, value in entry.items()}.items() >= {
        "stream_id": str, "status": str, "content_type": str,
        "tail_offset": int, "created_at_ms": int, "last_write_at_ms": int,
    }.items()  # fmt: skip
    assert (entry["stream_id"], entry["status"], entry["content_type"]) == ("user-1", "Open", "text/plain")
    assert entry["tail_offset"] == int(tail)
    assert before - 60_000 <= entry["created_at_ms"] <= entry["last_write_at_ms"] <= before + 60_000


def test_an_entry_follows_its_stream(bucket: Namespace) -> None:
    """002 §1.4: the response body."""
    stream = bucket.stream("s").create("application/json")
    [before] = bucket.listed().json["streams"]
    stream.append(b'{"n": 1}')
    stream.close()
    [after] = bucket.listed().json["streams"]
    assert (before["tail_offset"], before["status"]) == (0, "Open")
    assert (after["tail_offset"], after["status"]) == (int(stream.tail), "Closed")
    assert after["created_at_ms"] == before["created_at_ms"]
    assert after["last_write_at_ms"] >= before["last_write_at_ms"]


def test_cursors_lead_through_all_streams_once(bucket: Namespace) -> None:
    """002 §1.4: next_cursor and has_more."""
    names = [f"s-{number}" for number in range(5)]
    fill(bucket, *names)
    found, page = list[str](), bucket.listed(limit=2).json
    while page["has_more"]:
        found += [entry["stream_id"] for entry in page["streams"]]
        page = bucket.listed(limit=2, after=page["next_cursor"]).json
    assert found + [entry["stream_id"] for entry in page["streams"]] == names


def test_a_page_that_is_just_full_has_no_more(bucket: Namespace) -> None:
    """002 §1.4: has_more."""
    fill(bucket, "a", "b")
    assert bucket.listed(limit=2).json["has_more"] is False
    assert bucket.listed(limit=1).json["has_more"] is True


def test_streams_are_sorted(bucket: Namespace) -> None:
    """002 §1.4: streams is sorted lexicographically by stream_id."""
    names = ["b", "a", "B", "ab", "a-", "é", "🌊", "\ue000", "10", "9", "_", "~"]
    assert ids(fill(bucket, *names)) == sorted(names)


def test_a_deleted_stream_is_not_listed(bucket: Namespace) -> None:
    """002 §1.4: 200 OK: matching streams returned."""
    fill(bucket, "a", "b").stream("a").delete()
    assert ids(bucket) == ["b"]


# Response codes


def test_listing_an_empty_bucket_is_200(bucket: Namespace) -> None:
    """002 §1.4: 200 OK."""
    page = bucket.listed().json
    assert (page["streams"], page["stream_count"], page["has_more"]) == ([], 0, False)


def test_listing_a_bucket_with_an_invalid_id_is_400(client: Client) -> None:
    """002 §1.4: 400 Bad Request: bucket_id is invalid."""
    statuses = {name: client.get(f"{BUCKET_ROOT}/{name}/streams").status for name in INVALID_BUCKETS}
    assert statuses == dict.fromkeys(INVALID_BUCKETS, 400)


def test_listing_with_an_invalid_limit_is_400(bucket: Namespace) -> None:
    """002 §1.4: 400 Bad Request: query parameters are invalid."""
    invalid = ["0", "1001", "-1", "", "abc", "1.5", "99999999999999999999"]
    assert {limit: bucket.listed(limit=limit).status for limit in invalid} == dict.fromkeys(invalid, 400)


def test_listing_a_missing_bucket_is_404(missing: Namespace) -> None:
    """002 §1.4: 404 Not Found."""
    assert missing.client.get(query(missing.listing, prefix="a", limit=1)).status == 404
