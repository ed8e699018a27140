"""Snapshots beyond 002: what answers carry, history kept, digests, preconditions, deletion where nothing was cut."""

import base64
import hashlib

import pytest

from tests.conformance.extensions.client import query
from tests.conformance.extensions.servers import Server
from tests.conformance.extensions.streams import Namespace, Stream, beyond

pytestmark = pytest.mark.extension("snapshots")

KEEP = {"stream_snapshot_history": "keep"}


def digest(blob: bytes) -> str:
    """Content-Digest as RFC 9530 writes it."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(blob).digest()).decode()}:"


# Answers


def test_publishing_answers_with_offsets_digest_and_tag(stream: Stream) -> None:
    """Ours: Stream-Snapshot-Offset, Stream-Earliest-Offset, Content-Digest, ETag on the 204."""
    offset = stream.append(b"one")
    headers = stream.publish(offset, b"folded").headers
    assert (headers["stream-snapshot-offset"], headers["stream-earliest-offset"]) == (offset, offset)
    assert headers["content-digest"] == digest(b"folded")
    assert headers["etag"] == stream.snapshot(offset).headers["etag"]


def test_a_snapshot_is_read_with_digest_tag_and_length(stream: Stream) -> None:
    """Ours: Content-Digest, ETag, Content-Length, Cache-Control on the 200; Stream-Next-Offset is the offset."""
    offset = stream.published(stream.append(b"one"), b"folded")
    stream.append(b"two")
    headers = stream.snapshot(offset).headers
    assert (headers["content-digest"], headers["content-length"]) == (digest(b"folded"), "6")
    assert (headers["stream-next-offset"], headers["cache-control"]) == (offset, "no-cache")
    assert "stream-up-to-date" not in headers


def test_head_of_a_snapshot_is_its_get_without_the_body(stream: Stream) -> None:
    """Ours: HEAD on the latest and on each."""
    offset = stream.published(stream.append(b"one"), b"folded")
    for name in ("snapshot", f"snapshot/{offset}"):
        head = stream.client.request("HEAD", stream.resource(name))
        full = stream.client.get(stream.resource(name))
        assert (head.status, head.body) == (full.status, b"")
        assert {**full.headers, **head.headers, "date": ""} == {**full.headers, "date": ""}
    assert stream.client.request("HEAD", stream.resource(f"snapshot/{offset}")).headers["content-length"] == "6"


def test_the_redirect_names_the_snapshot(stream: Stream) -> None:
    """Ours: Stream-Snapshot-Offset on the 307."""
    offset = stream.published(stream.append(b"one"))
    assert stream.latest().headers["stream-snapshot-offset"] == offset


def test_a_snapshot_that_is_known_is_304(stream: Stream) -> None:
    """Ours: If-None-Match."""
    offset = stream.published(stream.append(b"one"), b"first")
    tag = stream.snapshot(offset).headers["etag"]
    assert [stream.snapshot(offset, if_none_match=value).status for value in (tag, "*", '"other"')] == [304, 304, 200]
    stream.published(offset, b"second")
    assert stream.snapshot(offset, if_none_match=tag).body == b"second"


def test_head_of_a_stream_names_its_earliest_offset_once_something_is_cut(stream: Stream) -> None:
    """Ours: Stream-Earliest-Offset if above zero."""
    offset = stream.append(b"one")
    assert "stream-earliest-offset" not in stream.head().headers
    stream.published(offset)
    assert stream.head().headers["stream-earliest-offset"] == offset


def test_what_is_gone_says_where_to_go_on(stream: Stream) -> None:
    """Ours: offset_gone with Stream-Earliest-Offset and Stream-Snapshot-Offset."""
    offset = stream.published(stream.append(b"one"))
    for parameters in ({}, {"offset": "-1"}, {"offset": "-1", "live": "sse"}, {"offset": "-1", "live": "long-poll"}):
        answer = stream.read(**parameters)
        assert answer.refusal == (410, "offset_gone")
        assert (answer.headers["stream-earliest-offset"], answer.headers["stream-snapshot-offset"]) == (offset, offset)


def test_what_is_gone_is_gone_for_readers_who_come_back(stream: Stream) -> None:
    """Ours: 410 for who has the page in a cache, and for an event stream that goes on behind the cut."""
    first = stream.append(b"one")
    page = stream.read(offset="-1")
    offset = stream.published(stream.append(b"two"))
    assert stream.client.get(query(stream.path, offset="-1"), if_none_match=page.headers["etag"]).status == 410
    for known, status in ((first, 410), (offset, 200)):
        head, _ = stream.client.follow(query(stream.path, offset="now", live="sse"), last_event_id=known)
        assert head.status == status


def test_a_snapshot_at_zero_cuts_nothing(stream: Stream) -> None:
    """Ours: -1 counts as 0: after a snapshot at 0 it still reads."""
    zero = stream.published(stream.tail, b"empty")
    stream.append(b"one")
    assert stream.read(offset="-1").body == stream.read().body == b"one"
    assert stream.snapshot(zero).body == b"empty"


def test_a_closed_stream_takes_snapshots(stream: Stream) -> None:
    """Ours: a stream that has ended is folded like any other."""
    offset = stream.append(b"one")
    stream.close()
    stream.published(offset)
    page = stream.read(offset=offset)
    assert (page.status, page.headers["stream-closed"]) == (200, "true")


def test_sub_resources_know_their_methods_and_nothing_else_is_there(stream: Stream) -> None:
    """Ours: sub-resources know their methods and nothing else is there."""
    assert stream.client.request("POST", stream.resource("snapshot")).status == 405
    assert stream.client.request("POST", stream.resource("bootstrap")).status == 405
    assert stream.client.get(stream.resource("nothing")).status == 404


# Refusals


@pytest.mark.parametrize("offset", ["-1", "now", "1", "00000000000000001", "%zz"])
def test_only_issued_offsets_are_taken(stream: Stream, offset: str) -> None:
    """Ours: publishing gets 400 invalid_offset: malformed, -1, now. No snapshot has such a name: 404."""
    stream.append(b"1")
    assert (stream.publish(offset).status, stream.snapshot(offset).status) == (400, 404)


def test_refusals_have_codes_of_their_own(stream: Stream) -> None:
    """Ours: stable codes."""
    older = stream.append(b"one")
    assert stream.latest().refusal == (404, "snapshot_not_found")
    assert stream.publish(beyond(older)).refusal == (409, "snapshot_beyond_tail")
    assert stream.publish(beyond(older, -1)).refusal == (400, "invalid_offset")
    latest = stream.published(stream.append(b"two"))
    assert stream.publish(older).refusal == (410, "offset_gone")
    assert stream.delete_snapshot(latest).refusal == (409, "snapshot_needed")
    assert stream.delete_snapshot(older).refusal == (404, "snapshot_not_found")


def test_an_older_snapshot_whose_offset_is_retained_is_409(stream: Stream) -> None:
    """Ours: 409 snapshot_superseded when a newer snapshot exists but the offset is still retained."""
    older = stream.append(b"one")
    stream.published(stream.append(b"two"), b"both", **KEEP)
    assert stream.publish(older, **KEEP).refusal == (409, "snapshot_superseded")
    assert stream.publish(older).refusal == (409, "snapshot_superseded")


def test_a_superseded_snapshot_is_not_there_any_more(stream: Stream) -> None:
    """Ours: only the latest is visible, at once."""
    older = stream.published(stream.append(b"one"), **KEEP)
    stream.published(stream.append(b"two"), **KEEP)
    assert stream.snapshot(older).refusal == (404, "snapshot_not_found")


def test_a_soft_deleted_stream_is_410(namespace: Namespace, stream: Stream) -> None:
    """Ours: 404 no stream; 410 soft-deleted."""
    offset = stream.append(b"one")
    assert namespace.stream("fork").put(stream_forked_from=stream.path).status == 201
    stream.delete()
    answers = [stream.publish(offset), stream.latest(), stream.snapshot(offset), stream.bootstrap()]
    assert [answer.status for answer in answers] == [410] * 4


def test_an_upload_that_breaks_off_changes_nothing(stream: Stream) -> None:
    """Ours: a snapshot is there entirely or not at all."""
    offset = stream.published(stream.append(b"one"), b"first")
    upload = stream.client.upload("PUT", stream.resource(f"snapshot/{offset}"), 100)
    upload.send(b"second")
    upload.abandon()
    assert stream.snapshot(offset).body == b"first"


def test_a_snapshot_may_be_sent_in_chunks(server: Server, stream: Stream) -> None:
    """Ours: the body is streamed, and bounded however it comes."""
    offset = stream.append(b"one")
    target, limit = stream.resource(f"snapshot/{offset}"), server.max_snapshot_bytes or 0
    assert stream.client.send_chunks("PUT", target, b"fol", b"ded").status == 204
    assert stream.snapshot(offset).body == b"folded"
    if limit:
        assert stream.client.send_chunks("PUT", target, b"x" * limit, b"x").status == 413
        assert stream.client.send_chunks("PUT", target, b"x" * (limit - 1), b"y").status == 204
        assert stream.snapshot(offset).body == b"x" * (limit - 1) + b"y"


def test_a_snapshot_that_is_refused_leaves_the_connection_usable(namespace: Namespace, stream: Stream) -> None:
    """Ours: a refusal is an answer like any other."""
    for _ in range(3):
        assert namespace.stream("missing").publish(stream.tail, b"x" * 10_000).status == 404
        assert stream.head().status == 200


# History kept


def test_publishing_may_keep_the_history(stream: Stream) -> None:
    """Ours: Stream-Snapshot-History: keep does not advance retention."""
    offset = stream.append(b"one")
    stream.append(b"two")
    answer = stream.publish(offset, b"folded", **KEEP)
    assert answer.status == 204
    assert stream.read(offset="-1").body == b"onetwo"
    assert stream.head().headers["stream-snapshot-offset"] == offset
    assert "stream-earliest-offset" not in stream.head().headers


@pytest.mark.parametrize("value", ["drop", "", "true", "keep, keep"])
def test_history_is_kept_by_one_word_only(stream: Stream, value: str) -> None:
    """Ours: any other value 400."""
    assert stream.publish(stream.append(b"one"), stream_snapshot_history=value).status == 400


def test_keeping_history_does_not_bring_it_back(stream: Stream) -> None:
    """Ours: keep leaves retention where it is."""
    first = stream.published(stream.append(b"one"))
    stream.published(stream.append(b"two"), **KEEP)
    assert [stream.read(offset=offset).status for offset in ("-1", first)] == [410, 200]


def test_a_snapshot_that_is_not_needed_can_be_deleted(stream: Stream) -> None:
    """Ours: 204 if nothing was ever cut."""
    offset = stream.published(stream.append(b"one"), **KEEP)
    assert stream.delete_snapshot(offset).status == 204
    assert (stream.latest().status, stream.snapshot(offset).status) == (404, 404)
    assert "stream-snapshot-offset" not in stream.head().headers
    assert stream.bootstrap().headers["stream-snapshot-offset"] == "-1"


# Digests


def test_a_digest_that_fits_is_taken(stream: Stream) -> None:
    """Ours: Content-Digest (RFC 9530) is verified when sent."""
    assert stream.publish(stream.append(b"one"), b"folded", content_digest=digest(b"folded")).status == 204


def test_a_digest_that_does_not_fit_is_400(stream: Stream) -> None:
    """Ours: mismatch 400 digest_mismatch."""
    answer = stream.publish(stream.append(b"one"), b"folded", content_digest=digest(b"other"))
    assert answer.refusal == (400, "digest_mismatch")
    assert stream.latest().status == 404


def test_digests_of_other_algorithms_are_ignored(stream: Stream) -> None:
    """Ours: other algorithms ignored, also beside one that is verified."""
    offset = stream.append(b"one")
    assert stream.publish(offset, b"folded", content_digest="sha-512=:AAAA:").status == 204
    assert stream.publish(offset, b"folded", content_digest=f"md5=:AAAA:, {digest(b'folded')}").status == 204
    assert stream.publish(offset, b"folded", content_digest=f"md5=:AAAA:, {digest(b'other')}").status == 400


# Preconditions


def test_a_snapshot_replaces_the_one_it_was_made_from(stream: Stream) -> None:
    """Ours: If-Match: 412 precondition_failed if the latest snapshot is another one."""
    first = stream.publish(stream.append(b"one"), b"first").headers["etag"]
    offset = stream.append(b"two")
    second = stream.publish(offset, b"second", if_match=first).headers["etag"]
    assert second != first
    assert stream.publish(offset, b"third", if_match=first).refusal == (412, "precondition_failed")
    assert stream.snapshot(offset).body == b"second"


def test_a_snapshot_of_another_stream_that_had_the_name_is_404(stream: Stream) -> None:
    """Ours: Stream-Created-At-Ms says of which stream the snapshot was made, as lists tell it."""
    offset = stream.append(b"one")
    assert stream.publish(offset, stream_created_at_ms="1").refusal == (404, "stream_not_found")
    assert stream.publish(offset, stream_created_at_ms="soon").status == 400


def test_if_match_without_a_snapshot_is_412(stream: Stream) -> None:
    """Ours: or none."""
    assert stream.publish(stream.append(b"one"), if_match='"any"').refusal == (412, "precondition_failed")


def test_the_first_snapshot_can_be_asked_to_be_the_first(stream: Stream) -> None:
    """Ours: If-None-Match: * is 412 if there is one."""
    offset = stream.append(b"one")
    assert stream.publish(offset, b"first", if_none_match="*").status == 204
    assert stream.publish(offset, b"second", if_none_match="*").refusal == (412, "precondition_failed")
    assert stream.snapshot(offset).body == b"first"
