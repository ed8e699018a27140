"""Buckets and lists through the client (002 §1, §4)."""

from itertools import count

import pytest

from everbrook.client._async.client import AsyncClient
from everbrook.client._async.resources import AsyncBucket
from everbrook.client.models import StreamInfo
from everbrook.client.timeouts import ClientTuning
from everbrook.protocol.errors import BucketExists, BucketNotEmpty, BucketNotFound, TokenGone

pytestmark = pytest.mark.anyio

_numbers = count()


async def fresh(client: AsyncClient) -> AsyncBucket:
    bucket = client.bucket(f"bucket-{next(_numbers)}")
    await bucket.create()
    return bucket


async def test_a_bucket_is_created_once(client: AsyncClient) -> None:
    bucket = client.bucket(f"bucket-{next(_numbers)}")
    assert await bucket.create()
    assert not await bucket.create()


async def test_a_bucket_that_must_be_new_is_refused_if_it_is_not(client: AsyncClient) -> None:
    bucket = await fresh(client)
    with pytest.raises(BucketExists):
        await bucket.create(exist_ok=False)


async def test_a_bucket_describes_itself(client: AsyncClient) -> None:
    bucket = client.bucket(f"bucket-{next(_numbers)}")
    await bucket.create(retention="max-messages=5")
    await bucket.stream("a").create()
    found = await bucket.head()
    assert (found.name, found.streams) == (bucket.name, 1)
    assert found.retention


async def test_a_bucket_with_streams_is_not_deleted(client: AsyncClient) -> None:
    bucket = await fresh(client)
    await bucket.stream("a").create()
    with pytest.raises(BucketNotEmpty):
        await bucket.delete()


async def test_an_empty_bucket_is_deleted(client: AsyncClient) -> None:
    bucket = await fresh(client)
    await bucket.delete()
    with pytest.raises(BucketNotFound):
        await bucket.head()


async def test_what_is_done_in_a_bucket_that_is_not_there_names_the_bucket(client: AsyncClient) -> None:
    with pytest.raises(BucketNotFound):
        await client.bucket("missing").stream("a").create()


async def test_a_stream_of_a_bucket_is_not_one_of_the_base_surface(client: AsyncClient) -> None:
    bucket = await fresh(client)
    stream = bucket.stream("a ü")
    await stream.create(data=[1])
    assert await stream.read().all() == [[1]]
    assert not await client.stream("a ü").exists()


async def test_buckets_are_listed_by_prefix(client: AsyncClient) -> None:
    names = [f"listed-{name}" for name in "abc"]
    for name in names:
        await client.bucket(name).create()
    assert [bucket.name async for bucket in client.buckets("listed-")] == names


async def test_streams_are_listed_in_order_of_their_names(client: AsyncClient) -> None:
    bucket = await fresh(client)
    for name in ("b", "c", "a"):
        await bucket.stream(name).create()
    assert [stream.name async for stream in bucket.list()] == ["a", "b", "c"]
    assert [stream.name async for stream in bucket.list(after="a")] == ["b", "c"]
    assert [stream.name async for stream in bucket.list("b")] == ["b"]


async def test_names_with_odd_characters_are_found(client: AsyncClient) -> None:
    bucket = await fresh(client)
    for name in ("a + b", "a & ü", "a%20b"):
        await bucket.stream(name).create()
    for name in ("a + b", "a & ü", "a%20b"):
        assert [stream.name async for stream in bucket.list(name)] == [name]


async def test_a_list_goes_over_as_many_pages_as_there_are(server: str) -> None:
    async with AsyncClient(server, tuning=ClientTuning(list_page_entries=2)) as client:
        bucket = await fresh(client)
        for name in "abcde":
            await bucket.stream(name).create()
        assert [stream.name async for stream in bucket.list()] == list("abcde")
        assert [stream.name for stream in (await bucket.changes()).streams] == list("abcde")


async def test_a_stream_in_a_list_says_how_it_is(client: AsyncClient) -> None:
    folder = f"listed-{next(_numbers)}"
    stream = client.stream(f"{folder}/a")
    await stream.create(content_type="text/plain", data="hello", closed=True)
    (found,) = [found async for found in client.list(f"{folder}/")]
    assert (found.name, found.content_type, found.tail_offset, found.closed) == (f"{folder}/a", "text/plain", 5, True)


async def test_only_what_moved_is_told(client: AsyncClient) -> None:
    bucket = await fresh(client)
    for name in "abc":
        await bucket.stream(name).create()
    seen = await bucket.changes()
    await bucket.stream("b").append(1)
    await bucket.stream("c").delete()
    moved = await bucket.changes(seen.token)
    assert [stream.name for stream in seen.streams] == ["a", "b", "c"]
    assert moved.streams[0].name == "b"
    assert moved.streams[1] == StreamInfo("c", "Deleted", incarnation=seen.streams[2].incarnation)
    assert (await bucket.changes(moved.token)).streams == []


async def test_what_moved_below_a_prefix_is_told(client: AsyncClient) -> None:
    folder = f"moved-{next(_numbers)}"
    token = (await client.changes(prefix=f"{folder}/")).token
    await client.stream(f"{folder}/a").create()
    await client.stream(f"elsewhere-{folder}").create()
    assert [stream.name for stream in (await client.changes(token, prefix=f"{folder}/")).streams] == [f"{folder}/a"]


async def test_a_token_of_another_run_is_gone(client: AsyncClient) -> None:
    with pytest.raises(TokenGone):
        await client.changes("0-1")
