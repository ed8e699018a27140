"""Listing streams on both surfaces, beyond 002."""

import pytest

from tests.conformance.extensions.client import Client, query
from tests.conformance.extensions.streams import BASE_ROOT, Namespace, Stream, fresh_name

pytestmark = pytest.mark.extension("listing")

REFUSED = [
    "limit=0", "limit=1001", "limit=", "limit=1&limit=1", "prefix=a&prefix=b", "after=a&after=a", "prefix=%zz",
    "prefix=%FF", "after=%", "limit=%31x",
]  # fmt: skip


def ids(namespace: Namespace, **parameters: object) -> list[str]:
    """The ids that are listed of a namespace's own streams."""
    answer = namespace.listed(**{"prefix": namespace.entry_id(""), **parameters})
    assert answer.status == 200, answer
    return [entry["stream_id"] for entry in answer.json["streams"]]


def fill(namespace: Namespace, *stream_ids: str) -> list[str]:
    for stream_id in stream_ids:
        namespace.stream(stream_id).create()
    return [namespace.entry_id(stream_id) for stream_id in stream_ids]


def test_streams_are_listed_in_order(namespace: Namespace) -> None:
    """Ours: the same listing on the base surface, where an id is the path below the root."""
    assert ids(namespace) == []
    assert ids(namespace) == [] != sorted(fill(namespace, "b", "a", "é", "B")) == ids(namespace)


def test_a_page_follows_its_cursor(namespace: Namespace) -> None:
    """Ours: next_cursor is the last id of the page when there is more, else null."""
    first, second, third = fill(namespace, "a", "b", "c")
    page = namespace.listed(prefix=namespace.entry_id(""), limit=2).json
    assert (page["next_cursor"], page["has_more"], page["stream_count"]) == (second, True, 2)
    rest = namespace.listed(prefix=namespace.entry_id(""), after=second).json
    assert (rest["next_cursor"], rest["has_more"], rest["stream_count"]) == (None, False, 1)
    assert [first, second, third] == [entry["stream_id"] for entry in page["streams"] + rest["streams"]]


def test_the_prefix_is_empty_when_it_is_left_out(namespace: Namespace) -> None:
    """Ours: `prefix` echoes."""
    assert namespace.listed(limit=1).json["prefix"] == ""
    assert namespace.listed(prefix="ab/c d").json["prefix"] == "ab/c d"


def test_an_entry_has_the_sizes_of_its_stream(namespace: Namespace, stream: Stream) -> None:
    """Ours: earliest_offset, snapshot_offset and size_bytes."""
    middle = stream.append(b"12345")
    stream.append(b"678")
    [before] = namespace.listed(prefix=namespace.entry_id("")).json["streams"]
    stream.published(middle)
    [after] = namespace.listed(prefix=namespace.entry_id("")).json["streams"]
    names = ("earliest_offset", "snapshot_offset", "size_bytes")
    sizes = [[entry[name] for name in names] for entry in (before, after)]
    assert sizes == [[0, None, 8], [5, 5, 3]]
    assert [entry["tail_offset"] for entry in (before, after)] == [8, 8]


def test_an_entry_has_the_size_and_the_time_of_its_snapshot(namespace: Namespace, stream: Stream) -> None:
    """Ours: snapshot_bytes and snapshot_at_ms, of a stream that has a snapshot."""
    tail = stream.append(b"12345")
    [before] = namespace.listed(prefix=namespace.entry_id("")).json["streams"]
    stream.published(tail, b"12")
    [after] = namespace.listed(prefix=namespace.entry_id("")).json["streams"]
    assert before.keys() & {"snapshot_bytes", "snapshot_at_ms"} == set()
    assert (after["snapshot_bytes"], after["snapshot_at_ms"] >= after["last_write_at_ms"]) == (2, True)


def test_an_entry_follows_writes_and_closing(namespace: Namespace, stream: Stream) -> None:
    """Ours: every field as 002 has it, on both surfaces."""
    tail = stream.append(b"12345")
    stream.close()
    [entry] = namespace.listed(prefix=namespace.entry_id("")).json["streams"]
    assert (entry["status"], entry["content_type"], entry["tail_offset"]) == ("Closed", "text/plain", int(tail))
    assert entry["created_at_ms"] <= entry["last_write_at_ms"]


def test_an_expired_stream_is_not_listed(namespace: Namespace) -> None:
    """Ours: expired and soft-deleted streams are not listed."""
    namespace.stream("over").create("text/plain", stream_expires_at="2001-01-01T00:00:00Z")
    assert ids(namespace) == []
    source = namespace.stream("source").create("text/plain")
    assert namespace.stream("fork").put(stream_forked_from=source.path).status == 201
    source.delete()
    assert ids(namespace) == [namespace.entry_id("fork")]


def test_malformed_and_repeated_parameters_are_400(namespace: Namespace) -> None:
    """Ours: other values, repeated or malformed parameters: 400."""
    statuses = {written: namespace.client.get(f"{namespace.listing}?{written}").status for written in REFUSED}
    assert statuses == dict.fromkeys(REFUSED, 400)


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_a_listing_is_only_read(namespace: Namespace, method: str) -> None:
    """Ours: other methods 405."""
    assert namespace.client.request(method, namespace.listing).status == 405


def test_the_base_surface_lists_paths_of_any_depth_and_names_no_bucket(client: Client) -> None:
    """Ours: stream_id is the path below the root, and there is no bucket_id."""
    root = fresh_name()
    for path in ("a", "a/b", "a/b/c", "a-b"):
        Stream(client, f"{BASE_ROOT}/{root}/{path}", "").create()
    listing = client.get(query(f"{BASE_ROOT}/__ds/streams", prefix=f"{root}/")).json
    found = [entry["stream_id"].removeprefix(f"{root}/") for entry in listing["streams"]]
    assert found == ["a", "a-b", "a/b", "a/b/c"]
    assert "bucket_id" not in listing


def test_the_base_surface_does_not_list_streams_of_buckets(bucket: Namespace) -> None:
    """Ours: two namespaces."""
    bucket.stream("s").create()
    for prefix in (bucket.name, f"{bucket.name}/s", f"ds/{bucket.name}"):
        assert bucket.client.get(query(f"{BASE_ROOT}/__ds/streams", prefix=prefix)).json["streams"] == []


def test_a_bucket_has_its_listing_as_a_control_resource_too(bucket: Namespace) -> None:
    """Ours: /ds/{bucket}/__ds/streams."""
    bucket.stream("s").create()
    listings = [bucket.client.get(f"{bucket.path}/{end}").json for end in ("streams", "__ds/streams")]
    assert listings[0]["streams"] == listings[1]["streams"] != []
