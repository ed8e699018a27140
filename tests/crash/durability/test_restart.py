"""A restart keeps everything that makes a stream what it is, whether the server was stopped or killed."""

import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.crash.durability.synced_modes import SURVIVING
from tests.kit.server_process import serving
from tests.kit.wire import Wire

ROOT = "/v1/stream/"
ENDS = {"stopped": signal.SIGTERM, "killed": signal.SIGKILL}
CLAIM = {"producer_id": "p", "producer_epoch": "3"}


def fill(wire: Wire) -> None:
    """One stream for each thing that must be kept."""
    wire.create(ROOT + "plain", body=b"abc")
    wire.create(ROOT + "json", "application/json", b"[1,2,3]")
    wire.append(ROOT + "json", b'{"four": 4.0}', "application/json")
    wire.create(ROOT + "ttl", stream_ttl="3600")
    wire.create(ROOT + "expires", stream_expires_at="2999-01-01T00:00:00Z")
    wire.create(ROOT + "closed", body=b"end")
    wire.request("POST", ROOT + "closed", stream_closed="true")
    wire.create(ROOT + "producer")
    wire.append(ROOT + "producer", b"0", **CLAIM, producer_seq="0")
    wire.append(ROOT + "producer", b"1", **CLAIM, producer_seq="1")
    wire.create(ROOT + "closed-by-producer")
    wire.append(ROOT + "closed-by-producer", b"0", **CLAIM, producer_seq="0", stream_closed="true")
    wire.create(ROOT + "sequenced")
    wire.append(ROOT + "sequenced", b"s", stream_seq="b")
    fill_forks(wire)
    wire.create(ROOT + "deleted", body=b"old")
    wire.request("DELETE", ROOT + "deleted")
    wire.create(ROOT + "recreated", body=b"old")
    wire.request("DELETE", ROOT + "recreated")
    wire.create(ROOT + "recreated", "application/json", b"[1]")
    fill_histories(wire)
    fill_buckets(wire)


def fill_forks(wire: Wire) -> None:
    wire.create(ROOT + "source", body=b"one")
    wire.append(ROOT + "source", b"two")
    wire.create(ROOT + "fork", stream_forked_from=ROOT + "source", stream_fork_offset=f"{3:016d}")
    wire.append(ROOT + "fork", b"fork")
    wire.create(ROOT + "soft-deleted", body=b"base")
    wire.create(ROOT + "survivor", stream_forked_from=ROOT + "soft-deleted")
    wire.request("DELETE", ROOT + "soft-deleted")


def fill_histories(wire: Wire) -> None:
    wire.create(ROOT + "cut", "application/json", b"[1,2,3]")
    publish(wire, ROOT + "cut/__ds", 4, b"one, two")
    wire.create(ROOT + "cut-fork", stream_forked_from=ROOT + "cut", content_type="application/json")
    wire.append(ROOT + "cut", b"4", "application/json")
    publish(wire, ROOT + "cut/__ds", 6, b"one, two, three", stream_snapshot_history="keep")
    wire.request("PUT", ROOT + f"cut/__ds/retention/{6:016d}")
    wire.create(ROOT + "emptied", body=b"abc")
    publish(wire, ROOT + "emptied/__ds", 3, b"")
    wire.create(ROOT + "policy", stream_retention="max-age=86400, max-messages=500")


def fill_buckets(wire: Wire) -> None:
    wire.request("PUT", "/ds/full", stream_retention="max-bytes=1000000")
    wire.request("PUT", "/ds/deleted")
    wire.request("DELETE", "/ds/deleted")
    wire.request("PUT", "/ds/empty")
    for name in ("b", "a"):
        wire.create(f"/ds/full/{name}", body=b"abc")
    publish(wire, "/ds/full/a", 3, b"all of it", stream_snapshot_history="keep")


def publish(wire: Wire, root: str, offset: int, body: bytes, **headers: str) -> None:
    target = f"{root}/snapshot/{offset:016d}"
    answer = wire.request("PUT", target, body, content_type="text/plain", **headers)
    assert answer.status == 204, answer


@pytest.fixture(scope="module", params=[(mode, end) for mode in SURVIVING for end in ENDS], ids=" ".join)
def restarted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """A connection to the second server on a folder, after the first one was stopped or killed."""
    mode, end = request.param
    folder: Path = tmp_path_factory.mktemp("restart")
    settings = {"DS_STORAGE__MODE": mode, "DS_STORAGE__DATA_DIR": "data"}
    with serving(folder, **settings) as first:
        with first.connect() as wire:
            fill(wire)
        first.stop(ENDS[end]).ended()
    with serving(folder, **settings) as second, second.connect() as wire:
        yield wire


def test_bytes_and_offsets_are_kept(restarted: Wire) -> None:
    answer = restarted.get(ROOT + "plain")
    assert (answer.body, answer.next_offset) == (b"abc", f"{3:016d}")


def test_json_is_kept_as_it_was_written(restarted: Wire) -> None:
    answer = restarted.get(ROOT + "json")
    assert (answer.body, answer.headers["content-type"]) == (b'[1,2,3,{"four": 4.0}]', "application/json")


def test_a_time_to_live_is_kept(restarted: Wire) -> None:
    assert restarted.request("HEAD", ROOT + "ttl").headers["stream-ttl"] == "3600"


def test_an_expiry_is_kept(restarted: Wire) -> None:
    assert restarted.request("HEAD", ROOT + "expires").headers["stream-expires-at"].startswith("2999-01-01T00:00:00")


def test_a_closed_stream_stays_closed(restarted: Wire) -> None:
    assert restarted.get(ROOT + "closed").headers["stream-closed"] == "true"
    assert restarted.append(ROOT + "closed", b"more").refusal == (409, "stream_closed")


def test_a_repeated_append_of_a_producer_is_a_duplicate(restarted: Wire) -> None:
    """§5.2.1: producer state is as durable as the append it belongs to."""
    assert restarted.append(ROOT + "producer", b"1", **CLAIM, producer_seq="1").status == 204
    assert restarted.get(ROOT + "producer").body == b"01"


def test_a_gap_and_a_stale_epoch_of_a_producer_are_refused(restarted: Wire) -> None:
    stale = {**CLAIM, "producer_epoch": "2"}
    assert restarted.append(ROOT + "producer", b"9", **CLAIM, producer_seq="9").status == 409
    assert restarted.append(ROOT + "producer", b"0", **stale, producer_seq="0").status == 403


def test_a_producer_may_repeat_the_append_that_closed_a_stream(restarted: Wire) -> None:
    again = {**CLAIM, "producer_seq": "0", "stream_closed": "true"}
    assert restarted.append(ROOT + "closed-by-producer", b"0", **again).status == 204
    assert restarted.get(ROOT + "closed-by-producer").body == b"0"


def test_the_sequence_of_a_stream_is_kept(restarted: Wire) -> None:
    assert restarted.append(ROOT + "sequenced", b"s", stream_seq="b").status == 409
    assert restarted.get(ROOT + "sequenced").body == b"s"


def test_a_fork_reads_through_to_its_source(restarted: Wire) -> None:
    assert restarted.get(ROOT + "fork").body == b"onefork"
    assert restarted.get(ROOT + "source").body == b"onetwo"


def test_a_soft_deleted_source_is_gone_and_still_read_by_its_fork(restarted: Wire) -> None:
    assert restarted.get(ROOT + "soft-deleted").status == 410
    assert restarted.get(ROOT + "survivor").body == b"base"


def test_a_deleted_stream_stays_deleted(restarted: Wire) -> None:
    assert restarted.get(ROOT + "deleted").status == 404


def test_a_stream_created_again_has_nothing_of_the_old_one(restarted: Wire) -> None:
    assert restarted.get(ROOT + "recreated").body == b"[1]"


def test_a_snapshot_is_kept_with_its_bytes_and_its_type(restarted: Wire) -> None:
    assert restarted.get(ROOT + "cut/__ds/snapshot").headers["stream-snapshot-offset"] == f"{6:016d}"
    answer = restarted.get(ROOT + f"cut/__ds/snapshot/{6:016d}")
    assert (answer.body, answer.headers["content-type"]) == (b"one, two, three", "text/plain")
    assert restarted.get(ROOT + f"cut/__ds/snapshot/{4:016d}").status == 404


def test_what_was_cut_stays_cut_and_the_rest_is_there(restarted: Wire) -> None:
    head = restarted.request("HEAD", ROOT + "cut").headers
    assert (head["stream-earliest-offset"], head["stream-next-offset"]) == (f"{6:016d}", f"{8:016d}")
    assert restarted.get(ROOT + f"cut?offset={4:016d}").refusal == (410, "offset_gone")
    assert restarted.get(ROOT + f"cut?offset={6:016d}").body == b"[4]"


def test_a_fork_keeps_the_snapshot_and_the_history_that_its_source_had(restarted: Wire) -> None:
    assert restarted.request("HEAD", ROOT + "cut-fork").headers["stream-earliest-offset"] == f"{4:016d}"
    assert restarted.get(ROOT + f"cut-fork/__ds/snapshot/{4:016d}").body == b"one, two"
    assert restarted.get(ROOT + f"cut-fork?offset={4:016d}").body == b"[3]"


def test_a_stream_of_which_only_a_snapshot_is_left_goes_on(restarted: Wire) -> None:
    assert restarted.get(ROOT + f"emptied/__ds/snapshot/{3:016d}").body == b""
    assert restarted.request("HEAD", ROOT + "emptied").headers["stream-earliest-offset"] == f"{3:016d}"
    assert restarted.get(ROOT + f"emptied?offset={3:016d}").status == 200


def test_a_policy_is_kept(restarted: Wire) -> None:
    assert restarted.request("HEAD", ROOT + "policy").headers["stream-retention"] == "max-age=86400, max-messages=500"


def test_buckets_are_kept_with_their_policies(restarted: Wire) -> None:
    assert restarted.get("/ds/empty").status == 200
    assert restarted.get("/ds/deleted").refusal == (404, "bucket_not_found")
    assert restarted.request("HEAD", "/ds/full/b").headers["stream-retention"] == "max-bytes=1000000"
    assert restarted.request("DELETE", "/ds/full").refusal == (409, "bucket_not_empty")


def test_the_streams_of_a_bucket_are_listed_in_order(restarted: Wire) -> None:
    listed = msgspec.json.decode(restarted.get("/ds/full/streams").body)["streams"]
    assert [(each["stream_id"], each["snapshot_offset"]) for each in listed] == [("a", 3), ("b", None)]


def test_new_streams_can_be_written_and_read(restarted: Wire) -> None:
    restarted.create(ROOT + "new", body=b"n")
    assert restarted.get(ROOT + "new").body == b"n"
