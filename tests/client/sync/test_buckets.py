# Written by tools/mirror.py from tests/client/async_/test_buckets.py: change that file, not this one.
"""Buckets and lists through the client (002 §1, §4)."""

from itertools import count

import pytest

from everbrook.client._sync.client import Client
from everbrook.client._sync.resources import Bucket
from everbrook.client.models import StreamInfo
from everbrook.client.timeouts import ClientTuning
from everbrook.protocol.errors import BucketExists, BucketNotEmpty, BucketNotFound, TokenGone

_numbers = count()


def fresh(client: Client) -> Bucket:
    bucket = client.bucket(f"bucket-{next(_numbers)}")
    bucket.create()
    return bucket


def test_a_bucket_is_created_once(client: Client) -> None:
    bucket = client.bucket(f"bucket-{next(_numbers)}")
    assert bucket.create()
    assert not bucket.create()


def test_a_bucket_that_must_be_new_is_refused_if_it_is_not(client: Client) -> None:
    bucket = fresh(client)
    with pytest.raises(BucketExists):
        bucket.create(exist_ok=False)


def test_a_bucket_describes_itself(client: Client) -> None:
    bucket = client.bucket(f"bucket-{next(_numbers)}")
    bucket.create(retention="max-messages=5")
    bucket.stream("a").create()
    found = bucket.head()
    assert (found.name, found.streams) == (bucket.name, 1)
    assert found.retention


def test_a_bucket_with_streams_is_not_deleted(client: Client) -> None:
    bucket = fresh(client)
    bucket.stream("a").create()
    with pytest.raises(BucketNotEmpty):
        bucket.delete()


def test_an_empty_bucket_is_deleted(client: Client) -> None:
    bucket = fresh(client)
    bucket.delete()
    with pytest.raises(BucketNotFound):
        bucket.head()


def test_what_is_done_in_a_bucket_that_is_not_there_names_the_bucket(client: Client) -> None:
    with pytest.raises(BucketNotFound):
        client.bucket("missing").stream("a").create()


def test_a_stream_of_a_bucket_is_not_one_of_the_base_surface(client: Client) -> None:
    bucket = fresh(client)
    stream = bucket.stream("a ü")
    stream.create(data=[1])
    assert stream.read().all() == [[1]]
    assert not client.stream("a ü").exists()


def test_buckets_are_listed_by_prefix(client: Client) -> None:
    names = [f"listed-{name}" for name in "abc"]
    for name in names:
        client.bucket(name).create()
    assert [bucket.name for bucket in client.buckets("listed-")] == names


def test_streams_are_listed_in_order_of_their_names(client: Client) -> None:
    bucket = fresh(client)
    for name in ("b", "c", "a"):
        bucket.stream(name).create()
    assert [stream.name for stream in bucket.list()] == ["a", "b", "c"]
    assert [stream.name for stream in bucket.list(after="a")] == ["b", "c"]
    assert [stream.name for stream in bucket.list("b")] == ["b"]


def test_names_with_odd_characters_are_found(client: Client) -> None:
    bucket = fresh(client)
    for name in ("a + b", "a & ü", "a%20b"):
        bucket.stream(name).create()
    for name in ("a + b", "a & ü", "a%20b"):
        assert [stream.name for stream in bucket.list(name)] == [name]


def test_a_list_goes_over_as_many_pages_as_there_are(server: str) -> None:
    with Client(server, tuning=ClientTuning(list_page_entries=2)) as client:
        bucket = fresh(client)
        for name in "abcde":
            bucket.stream(name).create()
        assert [stream.name for stream in bucket.list()] == list("abcde")
        assert [stream.name for stream in bucket.changes().streams] == list("abcde")


def test_a_stream_in_a_list_says_how_it_is(client: Client) -> None:
    folder = f"listed-{next(_numbers)}"
    stream = client.stream(f"{folder}/a")
    stream.create(content_type="text/plain", data="hello", closed=True)
    (found,) = list(client.list(f"{folder}/"))
    assert (found.name, found.content_type, found.tail_offset, found.closed) == (f"{folder}/a", "text/plain", 5, True)


def test_only_what_moved_is_told(client: Client) -> None:
    bucket = fresh(client)
    for name in "abc":
        bucket.stream(name).create()
    seen = bucket.changes()
    bucket.stream("b").append(1)
    bucket.stream("c").delete()
    moved = bucket.changes(seen.token)
    assert [stream.name for stream in seen.streams] == ["a", "b", "c"]
    assert moved.streams[0].name == "b"
    assert moved.streams[1] == StreamInfo("c", "Deleted", incarnation=seen.streams[2].incarnation)
    assert bucket.changes(moved.token).streams == []


def test_what_moved_below_a_prefix_is_told(client: Client) -> None:
    folder = f"moved-{next(_numbers)}"
    token = client.changes(prefix=f"{folder}/").token
    client.stream(f"{folder}/a").create()
    client.stream(f"elsewhere-{folder}").create()
    assert [stream.name for stream in client.changes(token, prefix=f"{folder}/").streams] == [f"{folder}/a"]


def test_a_token_of_another_run_is_gone(client: Client) -> None:
    with pytest.raises(TokenGone):
        client.changes("0-1")
