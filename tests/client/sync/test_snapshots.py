# Written by tools/mirror.py from tests/client/async_/test_snapshots.py: change that file, not this one.
"""Snapshots, cuts and bootstraps through the client (002 §2, §3)."""

from itertools import count

import pytest

from everbrook.client._sync.client import Client
from everbrook.client._sync.stream import Stream
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

_numbers = count()


def filled(client: Client, content_type: str = "application/json") -> tuple[Stream[object], list[str]]:
    """A stream of three messages, and the offsets behind them."""
    stream: Stream[object] = client.stream(f"snapshots-{next(_numbers)}/doc")
    stream.create(content_type=content_type)
    return stream, [stream.append(value) for value in ("1", "2", "3")]


def test_a_stream_without_a_snapshot_has_none(client: Client) -> None:
    stream, _ = filled(client)
    assert stream.snapshot() is None


def test_a_snapshot_stands_for_what_lies_before_it(client: Client) -> None:
    stream, offsets = filled(client)
    stream.publish(b"\x00state", offset=offsets[1], content_type="image/png")
    found = stream.snapshot()
    assert found is not None
    assert (found.offset, found.data, found.content_type) == (offsets[1], b"\x00state", "image/png")
    head = stream.head()
    assert (head.snapshot_offset, head.earliest_offset) == (offsets[1], offsets[1])


def test_what_lies_before_a_snapshot_is_gone(client: Client) -> None:
    stream, offsets = filled(client)
    stream.publish(b"{}", offset=offsets[1])
    with pytest.raises(OffsetGone):
        stream.read(offsets[0]).all()
    assert stream.read(offsets[1]).all() == ["3"]


def test_history_is_kept_if_asked_for_and_cut_later(client: Client) -> None:
    stream, offsets = filled(client)
    stream.publish(b"{}", offset=offsets[1], keep_history=True)
    assert stream.read(offsets[0]).all() == ["2", "3"]
    stream.cut(offsets[1])
    with pytest.raises(OffsetGone):
        stream.read(offsets[0]).all()


def test_nothing_is_cut_that_no_snapshot_stands_for(client: Client) -> None:
    stream, offsets = filled(client)
    stream.publish(b"{}", offset=offsets[0], keep_history=True)
    with pytest.raises(RetentionBeyondSnapshot):
        stream.cut(offsets[1])


def test_a_snapshot_of_what_is_not_there_is_refused(client: Client) -> None:
    stream, offsets = filled(client)
    with pytest.raises(SnapshotBeyondTail):
        stream.publish(b"{}", offset=f"{int(offsets[2]) + 1:016d}")


def test_two_who_compact_do_not_overwrite_each_other(client: Client) -> None:
    stream, offsets = filled(client)
    stream.publish(b"1", offset=offsets[0], if_none_match=True)
    with pytest.raises(PreconditionFailed):
        stream.publish(b"2", offset=offsets[1], if_none_match=True)
    found = stream.snapshot()
    assert found is not None
    stream.publish(b"2", offset=offsets[1], if_match=found.etag)
    with pytest.raises(PreconditionFailed):
        stream.publish(b"3", offset=offsets[2], if_match=found.etag)


def test_a_snapshot_that_nothing_rests_on_can_be_deleted(client: Client) -> None:
    stream, offsets = filled(client)
    stream.publish(b"{}", offset=offsets[1], keep_history=True)
    stream.delete_snapshot(offsets[1])
    assert stream.snapshot() is None
    with pytest.raises(SnapshotNotFound):
        stream.delete_snapshot(offsets[1])


def test_a_snapshot_that_something_rests_on_stays(client: Client) -> None:
    stream, offsets = filled(client)
    stream.publish(b"{}", offset=offsets[1])
    with pytest.raises(SnapshotNeeded):
        stream.delete_snapshot(offsets[1])


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_a_bootstrap_is_the_snapshot_and_every_message_after_it(client: Client, content_type: str) -> None:
    stream, offsets = filled(client, content_type)
    stream.publish(b"one", offset=offsets[0], content_type="text/plain")
    found = stream.bootstrap()
    assert found.snapshot == Snapshot(offsets[0], b"one", "text/plain")
    assert (found.messages, found.offset) == (["2", "3"], offsets[2])


def test_a_bootstrap_of_bytes_has_each_message_by_itself(client: Client) -> None:
    stream = client.stream(f"snapshots-{next(_numbers)}", content_type="image/png")
    stream.create()
    stream.append(b"\r\n--a")
    stream.append(b"\x00")
    assert stream.bootstrap().messages == [b"\r\n--a", b"\x00"]


def test_a_bootstrap_without_a_snapshot_has_everything(client: Client) -> None:
    stream, offsets = filled(client)
    found = stream.bootstrap()
    assert (found.snapshot, found.messages, found.offset) == (None, ["1", "2", "3"], offsets[2])


def test_a_bootstrap_is_followed_from_where_it_ends(client: Client) -> None:
    stream, _ = filled(client)
    found = stream.bootstrap()
    stream.append("4")
    stream.close()
    assert stream.follow(found.offset).all() == ["4"]


def test_a_bootstrap_of_nothing_is_refused(client: Client) -> None:
    with pytest.raises(StreamNotFound):
        client.stream("missing").bootstrap()


def test_a_follower_begins_with_the_snapshot_where_the_beginning_is_gone(client: Client) -> None:
    stream, offsets = filled(client)
    stream.publish(b"two", offset=offsets[1])
    stream.close()
    restored: list[Snapshot] = []
    values = stream.follow(offsets[0], on_snapshot=restored.append).all()
    assert [snapshot.data for snapshot in restored] == [b"two"]
    assert values == ["3"]


def test_without_that_wish_it_is_told_that_the_beginning_is_gone(client: Client) -> None:
    stream, offsets = filled(client)
    stream.publish(b"two", offset=offsets[1])
    with pytest.raises(OffsetGone):
        stream.follow(offsets[0]).all()


def test_parts_of_a_stream_in_a_bucket_are_found(client: Client) -> None:
    bucket = client.bucket(f"snapshots-{next(_numbers)}")
    bucket.create()
    stream = bucket.stream("doc")
    stream.create(data="1", content_type="application/json")
    stream.publish(b"one", offset=stream.head().offset)
    assert stream.bootstrap().snapshot == Snapshot(stream.head().offset, b"one", "application/json")
