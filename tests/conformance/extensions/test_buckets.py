"""Creating, describing and deleting buckets (002 §1.2, §1.3, §1.5)."""

from tests.conformance.extensions.client import Client
from tests.conformance.extensions.streams import BUCKET_ROOT, Namespace
from tests.conformance.extensions.test_identifiers import INVALID_BUCKETS

ALL_400 = dict.fromkeys(INVALID_BUCKETS, 400)

# Creating


def test_a_bucket_exists_once_it_is_created(missing: Namespace) -> None:
    """002 §1.2: buckets MUST be created explicitly."""
    assert missing.client.get(missing.path).status == 404
    missing.make()
    assert missing.client.get(missing.path).status == 200


def test_creating_a_stream_creates_no_bucket(missing: Namespace) -> None:
    """002 §1.2: PUT of a stream MUST NOT implicitly create a bucket."""
    assert missing.stream("s").put().status == 404
    assert missing.client.get(missing.path).status == 404


def test_creating_a_bucket_is_201(missing: Namespace) -> None:
    """002 §1.2: 201 Created."""
    assert missing.client.request("PUT", missing.path).status == 201


def test_creating_a_bucket_with_an_invalid_id_is_400(client: Client) -> None:
    """002 §1.2: 400 Bad Request."""
    assert {name: client.request("PUT", f"{BUCKET_ROOT}/{name}").status for name in INVALID_BUCKETS} == ALL_400


def test_creating_a_bucket_again_is_409(bucket: Namespace) -> None:
    """002 §1.2: 409 Conflict."""
    stream = bucket.fresh("text/plain", b"kept")
    assert bucket.client.request("PUT", bucket.path).status == 409
    assert stream.read(offset="-1").body == b"kept"


# Describing


def test_the_metadata_of_a_bucket_names_it_and_counts_its_streams(bucket: Namespace) -> None:
    """002 §1.3: 200 OK, a JSON object with at least bucket_id and streams."""
    first = bucket.fresh()
    bucket.fresh()
    described = bucket.client.get(bucket.path)
    assert (described.status, described.json["bucket_id"], described.json["streams"]) == (200, bucket.name, 2)
    first.delete()
    assert bucket.client.get(bucket.path).json["streams"] == 1


def test_the_metadata_of_a_new_bucket_counts_no_streams(bucket: Namespace) -> None:
    """002 §1.3: streams is an integer, the count of streams in the bucket."""
    count = bucket.client.get(bucket.path).json["streams"]
    assert (type(count), count) == (int, 0)


def test_describing_a_bucket_with_an_invalid_id_is_400(client: Client) -> None:
    """002 §1.3: 400 Bad Request."""
    assert {name: client.get(f"{BUCKET_ROOT}/{name}").status for name in INVALID_BUCKETS} == ALL_400


def test_describing_a_missing_bucket_is_404(missing: Namespace) -> None:
    """002 §1.3: 404 Not Found."""
    assert missing.client.get(missing.path).status == 404


# Deleting


def test_a_bucket_is_not_deleted_while_it_holds_a_stream(bucket: Namespace) -> None:
    """002 §1.5: a bucket MUST be empty (zero streams) before deletion."""
    stream = bucket.fresh("text/plain", b"kept")
    assert bucket.client.request("DELETE", bucket.path).status == 409
    assert stream.read(offset="-1").body == b"kept"
    assert stream.delete().status == 204
    assert bucket.client.request("DELETE", bucket.path).status == 204


def test_deleting_an_empty_bucket_is_204(bucket: Namespace) -> None:
    """002 §1.5: 204 No Content."""
    assert bucket.client.request("DELETE", bucket.path).status == 204
    assert bucket.client.get(bucket.path).status == 404


def test_a_deleted_bucket_can_be_created_again(bucket: Namespace) -> None:
    """002 §1.5: 204 No Content: bucket deleted, so that its id is free."""
    bucket.fresh().delete()
    assert bucket.client.request("DELETE", bucket.path).status == 204
    assert bucket.client.request("PUT", bucket.path).status == 201
    assert bucket.client.get(bucket.path).json["streams"] == 0


def test_deleting_a_bucket_with_an_invalid_id_is_400(client: Client) -> None:
    """002 §1.5: 400 Bad Request."""
    assert {name: client.request("DELETE", f"{BUCKET_ROOT}/{name}").status for name in INVALID_BUCKETS} == ALL_400


def test_deleting_a_missing_bucket_is_404(missing: Namespace) -> None:
    """002 §1.5: 404 Not Found."""
    assert missing.client.request("DELETE", missing.path).status == 404


def test_deleting_a_bucket_with_streams_is_409(bucket: Namespace) -> None:
    """002 §1.5: 409 Conflict."""
    bucket.fresh()
    assert bucket.client.request("DELETE", bucket.path).status == 409
