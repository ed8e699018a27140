"""Snapshots, cuts and bootstraps through the client (002 §2, §3)."""

from itertools import count

import pytest

from everbrook.client._async.client import AsyncClient
from everbrook.client._async.stream import AsyncStream
from everbrook.client.models import Snapshot
from everbrook.protocol.errors import (
    OffsetGone,
    PreconditionFailed,
    RetentionBeyondSnapshot,
    SnapshotBeyondTail,
    SnapshotNeeded,
    SnapshotNotFound,
    StreamNotFound,
)

pytestmark = pytest.mark.anyio

_numbers = count()


async def filled(client: AsyncClient, content_type: str = "application/json") -> tuple[AsyncStream[object], list[str]]:
    """A stream of three messages, and the offsets behind them."""
    stream: AsyncStream[object] = client.stream(f"snapshots-{next(_numbers)}/doc")
    await stream.create(content_type=content_type)
    return stream, [await stream.append(value) for value in ("1", "2", "3")]


async def test_a_stream_without_a_snapshot_has_none(client: AsyncClient) -> None:
    stream, _ = await filled(client)
    assert await stream.snapshot() is None


async def test_a_snapshot_stands_for_what_lies_before_it(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    await stream.publish(b"\x00state", offset=offsets[1], content_type="image/png")
    found = await stream.snapshot()
    assert found is not None
    assert (found.offset, found.data, found.content_type) == (offsets[1], b"\x00state", "image/png")
    head = await stream.head()
    assert (head.snapshot_offset, head.earliest_offset) == (offsets[1], offsets[1])


async def test_what_lies_before_a_snapshot_is_gone(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    await stream.publish(b"{}", offset=offsets[1])
    with pytest.raises(OffsetGone):
        await stream.read(offsets[0]).all()
    assert await stream.read(offsets[1]).all() == ["3"]


async def test_history_is_kept_if_asked_for_and_cut_later(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    await stream.publish(b"{}", offset=offsets[1], keep_history=True)
    assert await stream.read(offsets[0]).all() == ["2", "3"]
    await stream.cut(offsets[1])
    with pytest.raises(OffsetGone):
        await stream.read(offsets[0]).all()


async def test_nothing_is_cut_that_no_snapshot_stands_for(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    await stream.publish(b"{}", offset=offsets[0], keep_history=True)
    with pytest.raises(RetentionBeyondSnapshot):
        await stream.cut(offsets[1])


async def test_a_snapshot_of_what_is_not_there_is_refused(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    with pytest.raises(SnapshotBeyondTail):
        await stream.publish(b"{}", offset=f"{int(offsets[2]) + 1:016d}")


async def test_two_who_compact_do_not_overwrite_each_other(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    await stream.publish(b"1", offset=offsets[0], if_none_match=True)
    with pytest.raises(PreconditionFailed):
        await stream.publish(b"2", offset=offsets[1], if_none_match=True)
    found = await stream.snapshot()
    assert found is not None
    await stream.publish(b"2", offset=offsets[1], if_match=found.etag)
    with pytest.raises(PreconditionFailed):
        await stream.publish(b"3", offset=offsets[2], if_match=found.etag)


async def test_a_snapshot_that_nothing_rests_on_can_be_deleted(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    await stream.publish(b"{}", offset=offsets[1], keep_history=True)
    await stream.delete_snapshot(offsets[1])
    assert await stream.snapshot() is None
    with pytest.raises(SnapshotNotFound):
        await stream.delete_snapshot(offsets[1])


async def test_a_snapshot_that_something_rests_on_stays(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    await stream.publish(b"{}", offset=offsets[1])
    with pytest.raises(SnapshotNeeded):
        await stream.delete_snapshot(offsets[1])


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
async def test_a_bootstrap_is_the_snapshot_and_every_message_after_it(client: AsyncClient, content_type: str) -> None:
    stream, offsets = await filled(client, content_type)
    await stream.publish(b"one", offset=offsets[0], content_type="text/plain")
    found = await stream.bootstrap()
    assert found.snapshot == Snapshot(offsets[0], b"one", "text/plain")
    assert (found.messages, found.offset) == (["2", "3"], offsets[2])


async def test_a_bootstrap_of_bytes_has_each_message_by_itself(client: AsyncClient) -> None:
    stream = client.stream(f"snapshots-{next(_numbers)}", content_type="image/png")
    await stream.create()
    await stream.append(b"\r\n--a")
    await stream.append(b"\x00")
    assert (await stream.bootstrap()).messages == [b"\r\n--a", b"\x00"]


async def test_a_bootstrap_without_a_snapshot_has_everything(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    found = await stream.bootstrap()
    assert (found.snapshot, found.messages, found.offset) == (None, ["1", "2", "3"], offsets[2])


async def test_a_bootstrap_is_followed_from_where_it_ends(client: AsyncClient) -> None:
    stream, _ = await filled(client)
    found = await stream.bootstrap()
    await stream.append("4")
    await stream.close()
    assert await stream.follow(found.offset).all() == ["4"]


async def test_a_bootstrap_of_nothing_is_refused(client: AsyncClient) -> None:
    with pytest.raises(StreamNotFound):
        await client.stream("missing").bootstrap()


async def test_a_follower_begins_with_the_snapshot_where_the_beginning_is_gone(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    await stream.publish(b"two", offset=offsets[1])
    await stream.close()
    restored: list[Snapshot] = []
    values = await stream.follow(offsets[0], on_snapshot=restored.append).all()
    assert [snapshot.data for snapshot in restored] == [b"two"]
    assert values == ["3"]


async def test_without_that_wish_it_is_told_that_the_beginning_is_gone(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    await stream.publish(b"two", offset=offsets[1])
    with pytest.raises(OffsetGone):
        await stream.follow(offsets[0]).all()


async def test_parts_of_a_stream_in_a_bucket_are_found(client: AsyncClient) -> None:
    bucket = client.bucket(f"snapshots-{next(_numbers)}")
    await bucket.create()
    stream = bucket.stream("doc")
    await stream.create(data="1", content_type="application/json")
    await stream.publish(b"one", offset=(await stream.head()).offset)
    assert (await stream.bootstrap()).snapshot == Snapshot((await stream.head()).offset, b"one", "application/json")
