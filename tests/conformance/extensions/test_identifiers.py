"""Which names buckets and streams may have (002 §1.1)."""

import secrets

import pytest

from tests.conformance.extensions.client import Client
from tests.conformance.extensions.streams import BUCKET_ROOT, Namespace, fresh_name

INVALID_BUCKETS = ["abc", "a" * 65, "Abcd", "ab.d", "ab%20d", "ab%C3%A9d", "abcd%0A", "ab%2Fd", "%00abc", "abc~"]
STREAM_IDS = [
    "a", ".", ".hidden", "with space", "100%", "%2F", "a?b#c&d=e", "a+b", "a:b;c,d", "back\\slash", "tab\there",
    "line\nbreak", "naïve", "波", "🌊", "Streams", "snapshot", "bootstrap", "__proto__",
]  # fmt: skip
FORBIDDEN = ["a%2Fb", "%2F", "a%2fb", "a%00b", "%00", "..", "%2E%2E", "a..b", "..a", "a%2e.b", "..."]


@pytest.mark.parametrize("name", ["{:.4}", "{:.64}", "_-{:.8}", "-{:.5}_"])
def test_a_bucket_id_has_4_to_64_small_letters_digits_underscores_and_hyphens(client: Client, name: str) -> None:
    """002 §1.1: bucket_id MUST match ^[a-z0-9_-]{4,64}$."""
    path = f"{BUCKET_ROOT}/{name.format(secrets.token_hex(32))}"
    assert client.request("PUT", path).status == 201


def test_any_other_bucket_id_is_refused(client: Client) -> None:
    """002 §1.1: bucket_id MUST match ^[a-z0-9_-]{4,64}$."""
    statuses = {name: client.request("PUT", f"{BUCKET_ROOT}/{name}").status for name in INVALID_BUCKETS}
    assert statuses == dict.fromkeys(INVALID_BUCKETS, 400)


def test_a_bucket_is_the_same_for_everyone(bucket: Namespace) -> None:
    """002 §1.1: globally unique within the service."""
    with Client(bucket.client.base_url) as another:
        assert another.get(bucket.path).json["bucket_id"] == bucket.name
        assert another.request("PUT", bucket.path).status == 409


def test_a_stream_id_is_any_text(bucket: Namespace) -> None:
    """002 §1.1: any UTF-8 string."""
    for stream_id in STREAM_IDS:
        bucket.stream(stream_id).create("text/plain", stream_id.encode())
    read = {stream_id: bucket.stream(stream_id).read(offset="-1").body.decode() for stream_id in STREAM_IDS}
    assert read == {stream_id: stream_id for stream_id in STREAM_IDS}
    assert {entry["stream_id"] for entry in bucket.listed().json["streams"]} == set(STREAM_IDS)


@pytest.mark.parametrize("size", [123, 200, 4000])
def test_a_stream_id_above_122_bytes_is_refused(bucket: Namespace, size: int) -> None:
    """002 §1.1: MUST NOT exceed 122 bytes."""
    assert bucket.stream("s" * size).put().status == 400


def test_a_stream_id_has_no_slash_no_nul_and_no_two_dots(bucket: Namespace) -> None:
    """002 §1.1: MUST NOT contain /, NUL or two dots in a row."""
    statuses = {written: bucket.client.request("PUT", f"{bucket.path}/{written}").status for written in FORBIDDEN}
    assert statuses == dict.fromkeys(FORBIDDEN, 400)
    assert bucket.client.get(bucket.path).json["streams"] == 0


def test_bucket_and_stream_id_together_have_up_to_122_bytes(bucket: Namespace) -> None:
    """002 §1.1: the combined {bucket_id}/{stream_id} key MUST also not exceed 122 bytes."""
    room = 122 - len(bucket.name) - 1
    assert bucket.stream("s" * room).put().status == 201
    assert bucket.stream("s" * (room + 1)).put().status == 400


def test_the_combined_length_is_counted_in_bytes(client: Client) -> None:
    """002 §1.1: the combined {bucket_id}/{stream_id} key MUST also not exceed 122 bytes."""
    bucket = Namespace(client, "bucket", fresh_name(15)).make()
    assert bucket.stream("é" * 53).put().status == 201
    assert bucket.stream("é" * 54).put().status == 400


def test_the_stream_id_streams_is_reserved(bucket: Namespace) -> None:
    """002 §1.1: the literal local stream ID streams is reserved for the bucket listing endpoint."""
    assert 400 <= bucket.stream("streams").put().status < 500
    assert bucket.client.get(bucket.path).json["streams"] == 0
    assert bucket.client.get(f"{bucket.path}/streams").json["streams"] == []
