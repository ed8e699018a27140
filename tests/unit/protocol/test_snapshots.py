"""Snapshots: publishing one in place of what it covers, and deleting one."""

from hashlib import sha256

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from everbrook.protocol import (
    WHOLE,
    Append,
    Create,
    Cut,
    Delete,
    DeleteSnapshot,
    Kept,
    PublishSnapshot,
    Snapshot,
    Write,
)
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import (
    Forbidden,
    InvalidHeader,
    InvalidOffset,
    OffsetGone,
    PreconditionFailed,
    SnapshotBeyondTail,
    SnapshotNeeded,
    SnapshotNotFound,
    SnapshotSuperseded,
    StreamGone,
    StreamNotFound,
)
from everbrook.protocol.retention import (
    find_snapshot,
    format_digest,
    format_snapshot_etag,
    parse_created_at,
    parse_digest,
    parse_history,
)
from everbrook.protocol.state import EMPTY_DIGEST
from tests.kit.generated import generated
from tests.kit.views import BYTES, JSON, NOW, TEXT, Streams

DIGEST = b"d" * 32


def held() -> Streams:
    """A stream of three messages, which end at 3, 8 and 10."""
    streams = Streams()
    streams.hold(b"s", b"one", b"three", b"me")
    return streams


def publishing(offset: int, *, keep_history: bool = False, expected_etag: bytes | None = None) -> PublishSnapshot:
    return PublishSnapshot(b"s", NOW, offset, JSON, 1, 7, 5, DIGEST, keep_history, expected_etag)


@pytest.mark.parametrize("offset", [0, 3, 8, 10])
def test_a_snapshot_takes_the_place_of_what_it_covers(offset: int) -> None:
    """002 §2.2: its offset is the earliest retained one from then on."""
    streams = held()

    outcome = streams.run(publishing(offset))
    snapshot = Snapshot(offset, NOW, JSON, 5, DIGEST, owner=1, blob=7)
    assert outcome == Cut(streams.kept[b"s"].head)
    assert streams.kept[b"s"].head.kept == Kept(offset, snapshot)


def test_publishing_changes_nothing_else() -> None:
    """002 §2.2: the messages that follow are as they were, and nothing was written."""
    streams = held()
    before = streams.kept[b"s"].head

    (edit,) = decide(streams, replace(publishing(8), now=NOW + 5)).change
    assert isinstance(edit, Write)
    assert edit == Write(replace(before, kept=edit.head.kept), cut=True)


def test_a_snapshot_that_keeps_history_cuts_nothing() -> None:
    """Ours: `Stream-Snapshot-History: keep`."""
    streams = held()

    assert streams.publish(b"s", 8, keep_history=True).head.kept.earliest == 0
    assert streams.publish(b"s", 8).head.kept.earliest == 8
    assert streams.publish(b"s", 10, keep_history=True).head.kept.earliest == 8


def test_a_closed_stream_takes_snapshots() -> None:
    """002 §2.2: closing is about appends."""
    streams = held()
    streams.run(Append(b"s", NOW, close=True))

    kept = streams.publish(b"s", 10).head
    assert (kept.closed, kept.kept.earliest) == (True, 10)


def test_what_is_appended_later_leaves_the_snapshot() -> None:
    """002 §2.2: appends go on beside it."""
    streams = held()
    kept = streams.publish(b"s", 8).head.kept

    streams.run(Append(b"s", NOW, TEXT, b"more"))
    assert streams.kept[b"s"].head.kept is kept


@pytest.mark.parametrize("offset", [1, 2, 4, 9])
def test_an_offset_inside_a_message_is_refused(offset: int) -> None:
    """002 §2.2: 400 where no committed message ends."""
    with pytest.raises(InvalidOffset, match=f"{offset:016d} lies inside a message"):
        decide(held(), publishing(offset))


@pytest.mark.parametrize("offset", [11, 10**15])
def test_a_snapshot_of_what_is_not_there_conflicts(offset: int) -> None:
    """002 §2.2: 409 beyond the tail, and where that is."""
    with pytest.raises(SnapshotBeyondTail, match="is beyond the tail") as refusal:
        decide(held(), publishing(offset))
    assert refusal.value.headers == ((b"Stream-Next-Offset", b"0000000000000010"),)


@pytest.mark.parametrize("offset", [0, 3, 5])
def test_a_snapshot_of_what_is_gone_is_refused(offset: int) -> None:
    """002 §2.2: 410 before the earliest retained offset."""
    streams = held()
    streams.publish(b"s", 8)

    with pytest.raises(OffsetGone):
        decide(streams, publishing(offset))


def test_a_snapshot_replaces_the_one_at_the_same_offset() -> None:
    """002 §2.2: the new one is visible at once."""
    streams = held()
    streams.publish(b"s", 8)
    streams.run(publishing(8))

    assert find_snapshot(streams.kept[b"s"].head, 8).blob == 7


def test_a_snapshot_does_not_replace_a_newer_one() -> None:
    """Ours: 409, where the offset is retained still."""
    streams = held()
    streams.publish(b"s", 8, keep_history=True)

    with pytest.raises(SnapshotSuperseded, match="a newer snapshot, at 0000000000000008") as refusal:
        decide(streams, publishing(3))
    assert refusal.value.headers == ((b"Stream-Snapshot-Offset", b"0000000000000008"),)


def test_a_stream_that_is_not_there_takes_none() -> None:
    """002 §2.2: 404; 410 while forks read what was deleted."""
    streams = held()
    with pytest.raises(StreamNotFound):
        decide(streams, replace(publishing(0), name=b"other"))
    streams.fork(b"f", b"s")
    streams.run(Delete(b"s", NOW))
    with pytest.raises(StreamGone):
        decide(streams, publishing(0))


def test_a_blob_that_was_made_for_an_earlier_stream_of_the_name_is_refused() -> None:
    """002 §2.2: a snapshot is of what the stream holds, and it is another stream."""
    streams = held()
    streams.run(Delete(b"s", NOW))
    streams.run(Create(b"s", NOW, 5, TEXT, b"one"))

    with pytest.raises(StreamNotFound, match="was deleted while its bytes arrived"):
        decide(streams, publishing(3))
    assert decide(streams, replace(publishing(3), owner=0, blob=0)).change
    assert decide(streams, replace(publishing(3), owner=5)).change


def test_a_publisher_can_ask_for_the_snapshot_that_it_knows() -> None:
    """RFC 9110 §13.1.1: `If-Match`."""
    streams = held()
    streams.run(publishing(3))
    etag = format_snapshot_etag(find_snapshot(streams.kept[b"s"].head, None))

    for expected in (etag, b"*"):
        assert decide(streams, publishing(8, expected_etag=expected)).change
    for expected in (b'"another"', b""):
        with pytest.raises(PreconditionFailed, match="the latest snapshot is "):
            decide(streams, publishing(8, expected_etag=expected))


def test_a_publisher_can_ask_that_there_be_none() -> None:
    """RFC 9110 §13.1.2: `If-None-Match: *`."""
    streams = held()

    assert decide(streams, publishing(8, expected_etag=b"")).change
    for expected in (b'"another"', b"*"):
        with pytest.raises(PreconditionFailed, match="the latest snapshot is absent"):
            decide(streams, publishing(8, expected_etag=expected))


def test_whoever_wanted_no_snapshot_is_told_so() -> None:
    streams = held()
    streams.publish(b"s", 3)

    with pytest.raises(PreconditionFailed, match="not absent"):
        decide(streams, publishing(8, expected_etag=b""))


@pytest.mark.parametrize("offset", [None, 8])
def test_the_latest_snapshot_is_found(offset: int | None) -> None:
    """002 §2.3, §2.5."""
    streams = held()
    streams.publish(b"s", 3)

    assert find_snapshot(streams.publish(b"s", 8).head, offset).offset == 8


def test_an_older_snapshot_is_not_found() -> None:
    """002 §2.2: only the latest one is reachable; the refusal says which that is."""
    streams = held()
    streams.publish(b"s", 3)

    with pytest.raises(SnapshotNotFound, match="no snapshot at 0000000000000003") as refusal:
        find_snapshot(streams.publish(b"s", 8).head, 3)
    assert refusal.value.headers == ((b"Stream-Snapshot-Offset", b"0000000000000008"),)


@pytest.mark.parametrize("offset", [None, 0])
def test_a_stream_without_a_snapshot_has_none(offset: int | None) -> None:
    """002 §2.3: 404."""
    with pytest.raises(SnapshotNotFound, match="the stream has no snapshot"):
        find_snapshot(held().kept[b"s"].head, offset)


def test_a_snapshot_that_a_bootstrap_needs_is_not_deleted() -> None:
    """002 §2.6: 409."""
    streams = held()
    streams.publish(b"s", 3)
    streams.publish(b"s", 8, keep_history=True)

    with pytest.raises(SnapshotNeeded):
        decide(streams, DeleteSnapshot(b"s", NOW, 8))


@pytest.mark.parametrize("offset", [0, 8])
def test_a_snapshot_that_replaced_nothing_can_be_deleted(offset: int) -> None:
    """Ours: nothing was ever cut, so that a bootstrap is whole without it."""
    streams = held()
    streams.publish(b"s", offset, keep_history=True)

    assert streams.run(DeleteSnapshot(b"s", NOW, offset)) == Cut(streams.kept[b"s"].head)
    assert streams.kept[b"s"].head.kept == WHOLE


@pytest.mark.parametrize("offset", [0, 3, 10])
def test_another_snapshot_than_the_latest_is_not_there_to_delete(offset: int) -> None:
    """002 §2.6: 404."""
    streams = held()
    streams.publish(b"s", 8, keep_history=True)

    with pytest.raises(SnapshotNotFound):
        decide(streams, DeleteSnapshot(b"s", NOW, offset))


def test_a_snapshot_without_a_blob_is_a_policys_and_empty() -> None:
    """002 §3.2."""
    snapshot = Snapshot(8, NOW)

    assert snapshot.automatic
    assert (snapshot.content_type, snapshot.size, snapshot.digest) == (BYTES, 0, EMPTY_DIGEST)
    assert not replace(snapshot, owner=1, blob=7).automatic


@pytest.mark.parametrize("value, keeps", [(None, False), (b"keep", True)])
def test_history_goes_unless_it_is_to_be_kept(value: bytes | None, keeps: object) -> None:
    """002 §2.2; the header is ours."""
    assert parse_history(value) is keeps


@pytest.mark.parametrize("value", [b"", b"Keep", b"drop", b"keep, keep"])
def test_another_wish_for_history_is_refused(value: bytes) -> None:
    with pytest.raises(InvalidHeader, match="Stream-Snapshot-History must be keep, got"):
        parse_history(value)


def test_a_digest_is_base64_between_colons() -> None:
    """RFC 9530 §2: the example of the section, over `{"hello": "world"}` and a line break."""
    digest = sha256(b'{"hello": "world"}\n').digest()
    assert format_digest(digest) == b"sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"


@generated
@given(st.binary(max_size=40).map(lambda data: sha256(data).digest()))
def test_a_digest_is_read_as_it_is_written(digest: bytes) -> None:
    """RFC 9530 §2."""
    assert parse_digest(format_digest(digest)) == digest
    assert parse_digest(b"sha-512=:AAAA:, " + format_digest(digest)) == digest


@pytest.mark.parametrize("value", [None, b"", b"sha-512=:AAAA:", b"md5=:AAAA:", b"nonsense"])
def test_digests_of_other_kinds_are_left_alone(value: bytes | None) -> None:
    """RFC 9530 §2: a recipient may ignore any of them."""
    assert parse_digest(value) is None


@pytest.mark.parametrize(
    "value", [b"sha-256=", b"sha-256=:AAAA:", b"sha-256=" + b"A" * 43 + b"=", b"sha-256=:%b:" % (b"A" * 44)]
)
def test_a_digest_that_is_none_is_refused(value: bytes) -> None:
    with pytest.raises(InvalidHeader, match="Content-Digest must be sha-256=:<base64 of 32 bytes>:, got"):
        parse_digest(value)


def test_an_etag_tells_snapshots_apart_by_place_and_content() -> None:
    """RFC 9110 §8.8.3."""
    one = Snapshot(8, NOW, digest=DIGEST)

    assert format_snapshot_etag(one).startswith(b'"0000000000000008-')
    for other in (replace(one, offset=9), replace(one, digest=EMPTY_DIGEST), replace(one, content_type=TEXT)):
        assert format_snapshot_etag(other) != format_snapshot_etag(one)


def test_a_snapshot_of_a_stream_that_is_gone_is_not_that_of_the_one_that_has_its_name() -> None:
    """Ours: Stream-Created-At-Ms."""
    streams = held()
    created_at = streams.kept[b"s"].head.identity.created_at
    with pytest.raises(StreamNotFound, match="is gone; this one is another"):
        streams.run(replace(publishing(8), created_at=created_at - 1))
    assert isinstance(streams.run(replace(publishing(8), created_at=created_at)), Cut)


@pytest.mark.parametrize("value, time", [(None, None), (b"0", 0), (b"1735689600000", 1735689600000)])
def test_the_time_of_creation_is_read(value: bytes | None, time: int | None) -> None:
    assert parse_created_at(value) == time


@pytest.mark.parametrize("value", [b"", b"-1", b"1.5", b"now", b"1" * 17])
def test_what_is_no_time_of_creation_is_refused(value: bytes) -> None:
    with pytest.raises(InvalidHeader, match="Stream-Created-At-Ms must be milliseconds"):
        parse_created_at(value)


def test_who_may_only_add_publishes_where_nothing_is_lost_by_it() -> None:
    streams = held()
    adding = replace(publishing(8, keep_history=True), adds_only=True)

    assert decide(streams, adding).change
    with pytest.raises(Forbidden, match="needs the right to delete"):
        decide(streams, replace(adding, keep_history=False))
    streams.publish(b"s", 3)
    with pytest.raises(Forbidden, match="needs the right to delete"):
        decide(streams, adding)
