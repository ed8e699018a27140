"""Batches of a query: what is due again and again, and a batch that is run again."""

import json

import pytest

from everbrook import Client, Unsupported
from everbrook.client import state_events
from everbrook.protocol.errors import StreamNotFound
from tests.spark.folds.compactors import Compactor, Query
from tests.spark.folds.histories import bootstrapped, written

ADA, BOB = state_events.insert("user", "1", "Ada"), state_events.insert("user", "2", "Bob")


def _outcomes(query: Query) -> dict[str, str]:
    return {name: report["outcome"] for name, report in query.batch().items()}


def test_streams_are_folded_as_they_come_and_grow(server: str, client: Client, prefix: str) -> None:
    query = Query(Compactor(server, streamPrefix=prefix))
    first = written(client, f"{prefix}a", [ADA])
    assert [_outcomes(query), _outcomes(query)] == [{first.name: "published"}, {}]
    second = written(client, f"{prefix}b", [ADA])
    first.append(BOB)
    assert _outcomes(query) == {first.name: "published", second.name: "published"}


def test_a_checkpoint_does_not_grow_with_the_number_of_streams(server: str, client: Client, prefix: str) -> None:
    for number in range(50):
        written(client, f"{prefix}{number}", [ADA])
    query = Query(Compactor(server, streamPrefix=prefix))
    query.batch()
    client.stream(f"{prefix}7").append(BOB)
    query.batch()
    assert list(query.start["plans"]) == [f"{prefix}7"]
    assert len(json.dumps(query.start)) < 200


def test_a_batch_has_so_many_streams_at_most(server: str, client: Client, prefix: str) -> None:
    for number in range(5):
        written(client, f"{prefix}{number}", [ADA])
    query = Query(Compactor(server, streamPrefix=prefix, maxStreamsPerTrigger="2"))
    query.restart(ends=True)
    assert [len(query.batch()) for _ in range(4)] == [2, 2, 1, 0]


def test_streams_take_turns_where_there_are_always_too_many(server: str, client: Client, prefix: str) -> None:
    streams = [written(client, f"{prefix}{number}", [ADA]) for number in range(3)]
    query = Query(Compactor(server, streamPrefix=prefix, maxStreamsPerTrigger="1"))
    folded = list[str]()
    for _ in range(6):
        folded += query.batch()
        for stream in streams:
            stream.append(BOB)
    assert folded == [stream.name for stream in streams] * 2


def test_a_batch_that_is_run_again_does_nothing_twice(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [ADA])
    query = Query(Compactor(server, stream=stream.name))
    end = query.plan()
    assert query.run(end)[stream.name]["outcome"] == "published"
    snapshot = stream.snapshot()
    query.restart()
    assert query.run(end)[stream.name]["outcome"] == "current"
    assert stream.snapshot() == snapshot


def test_a_batch_ends_where_it_was_planned_to(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [ADA])
    query = Query(Compactor(server, stream=stream.name))
    end, planned = query.plan(), stream.head().offset
    stream.append(BOB)
    query.restart()
    assert query.run(end)[stream.name]["offset"] == planned == stream.head().snapshot_offset


def test_a_query_that_ends_folds_what_was_there_when_it_began(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [ADA])
    query = Query(Compactor(server, stream=stream.name))
    query.restart(ends=True)
    stream.append(BOB)
    (report,) = query.batch().values()
    assert report["events"] == 1
    assert query.batch() == {}


def test_a_refused_stream_is_tried_again_when_its_log_has_doubled(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [{"x": 1}, ADA, ADA])
    query = Query(Compactor(server, stream=stream.name))
    assert [_outcomes(query), _outcomes(query)] == [{stream.name: "refused"}, {}]
    stream.append(ADA)
    assert _outcomes(query) == {}
    stream.extend([ADA, ADA])
    assert _outcomes(query) == {stream.name: "refused"}


def test_a_refused_stream_is_tried_again_once_its_trouble_is_cut(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [{"x": 1}])
    query = Query(Compactor(server, stream=stream.name))
    assert _outcomes(query) == {stream.name: "refused"}
    stream.publish(b"[]", offset=stream.head().offset)
    stream.append(ADA)
    assert _outcomes(query) == {stream.name: "published"}


def test_a_query_that_is_started_again_tries_refused_streams_again(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [{"x": 1}])
    query = Query(Compactor(server, stream=stream.name))
    query.restart(ends=True)
    assert [_outcomes(query), _outcomes(query)] == [{stream.name: "refused"}, {}]
    query.restart(ends=True)
    assert [_outcomes(query), _outcomes(query)] == [{stream.name: "refused"}, {}]


def test_streams_are_due_when_their_log_has_outgrown_their_snapshot(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [ADA])
    query = Query(Compactor(server, streamPrefix=prefix, whenLogIs="3", minLogBytes="10"))
    assert _outcomes(query) == {stream.name: "published"}
    stream.extend([ADA, ADA])
    assert _outcomes(query) == {}
    stream.extend([BOB, BOB])
    assert _outcomes(query) == {stream.name: "published"}
    assert bootstrapped(stream) == {"user": {"1": "Ada", "2": "Bob"}}


def test_streams_are_due_some_time_after_their_last_fold(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [ADA])
    hourly, at_once = (Compactor(server, stream=stream.name, every=every) for every in ("1h", "1ms"))
    assert hourly.outcomes() == {}
    assert at_once.outcomes() == {stream.name: "published"}
    stream.append(BOB)
    assert hourly.outcomes() == {}
    assert at_once.outcomes() == {stream.name: "published"}


def test_a_stream_that_is_named_must_be_there(server: str, prefix: str) -> None:
    with pytest.raises(StreamNotFound, match=f"there is no stream '{prefix}none'"):
        Compactor(server, stream=f"{prefix}none").fold()


@pytest.mark.parametrize("selection", [{"stream": "a"}, {"streamPrefix": "a"}])
def test_a_server_without_snapshots_is_told_from_others(reference: str, selection: dict[str, str]) -> None:
    with Client(reference) as client:
        client.stream("a").create()
    with pytest.raises(Unsupported, match="folds need a server that has snapshots"):
        Compactor(reference, **selection).fold()
