"""Micro-batches: every message once, whatever happens to streams and to the query meanwhile."""

import json
import time
from typing import Any

import pytest

from everbrook import Client
from everbrook.spark.streams.losses import FORGOTTEN, DataLoss
from everbrook.spark.streams.offsets import VERSION, VERSION_KEY
from tests.spark.readers import ALL, STRING, Query, values


@pytest.fixture
def options(server: str, prefix: str) -> dict[str, str]:
    return {"url": server, "streamPrefix": prefix, "startingOffsets": "earliest"}


def test_batches_follow_each_other(client: Client, prefix: str, options: dict[str, str]) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create(data="one")
    query = Query(options)
    first = query.batch()
    stream.append("two")
    assert (values(first), values(query.batch())) == (["one"], ["two"])


def test_a_batch_that_is_asked_for_again_is_the_same(client: Client, prefix: str, options: dict[str, str]) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create(data=1)
    query = Query(options)
    start, end = query.plan()
    rows = query.read(start, end)
    stream.append(2)
    query.restart()
    assert query.read(start, end) == rows


def test_a_query_from_latest_misses_nothing_once_it_has_begun(
    client: Client, prefix: str, options: dict[str, str]
) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create(data="before")
    query = Query(options | {"startingOffsets": "latest"})
    assert query.batch() == []
    query.restart()
    stream.append("after")
    assert values(query.batch()) == ["after"]


def test_a_first_batch_that_is_run_again_begins_where_it_began(
    client: Client, prefix: str, options: dict[str, str]
) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create(data=1)
    query = Query(options | {"startingOffsets": "latest"})
    _, logged = query.plan()
    stream.append(2)
    query.restart()
    assert query.read(query.start, logged) == []
    query.checkpoint.append(logged)
    assert values(query.batch()) == ["2"]


def test_a_stream_that_appears_is_read_from_its_beginning(client: Client, prefix: str, options: dict[str, str]) -> None:
    query = Query(options | {"startingOffsets": "latest"})
    query.batch()
    client.stream(f"{prefix}new").create(data=1)
    assert values(query.batch()) == ["1"]


def test_a_query_goes_on_after_a_restart_with_other_streams_between(
    client: Client, prefix: str, options: dict[str, str]
) -> None:
    for name in "abc":
        client.stream(prefix + name).create(data=name)
    query = Query(options)
    query.batch()
    query.restart()
    client.stream(f"{prefix}b").append("more")
    assert [(row["stream"], row["value"]) for row in query.batch()] == [(f"{prefix}b", "more")]


def test_positions_are_the_same_text_when_nothing_is_new(client: Client, prefix: str, options: dict[str, str]) -> None:
    for name in "bca":
        client.stream(prefix + name).create(data=1)
    for starting in ("earliest", "latest"):
        query = Query(options | {"startingOffsets": starting})
        query.batch()
        client.stream(f"{prefix}b").append(2)
        query.batch()
        query.restart()
        start, end = query.plan()
        assert json.dumps(start) == json.dumps(end)


def test_offsets_are_those_of_the_messages(client: Client, prefix: str, options: dict[str, str]) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create()
    stream.extend(["a", "bb", "ccc"])
    rows = Query(options).batch()
    for row in rows:
        found = stream.read(row["offset"], until=row["next_offset"]).all()
        assert [f'"{value}"' for value in found] == [row["value"]]


def test_the_driver_reads_a_small_batch_as_tasks_would(client: Client, prefix: str, options: dict[str, str]) -> None:
    client.stream(f"{prefix}a").create(data=[1, 2])
    client.stream(f"{prefix}b").create(data="x")
    query = Query(options)
    start, end = query.plan()
    assert query.read_on_driver(start, end) == query.read(start, end)


def test_tasks_read_small_batches_too_if_the_user_wants_that(
    client: Client, prefix: str, options: dict[str, str]
) -> None:
    client.stream(f"{prefix}a").create(data=1)
    query = Query(options | {"readOn": "tasks"})
    start, end = query.plan()
    assert query.read_on_driver(start, end) is None
    assert values(query.read(start, end)) == ["1"]


def test_a_large_batch_is_left_to_tasks(client: Client, prefix: str, options: dict[str, str]) -> None:
    for number in range(9):
        client.stream(f"{prefix}{number}").create(data="x" * 40_000)
    query = Query(options | {"maxPartitions": "3"})
    start, end = query.plan()
    assert query.read_on_driver(start, end) is None
    assert len(query.read(start, end)) == 9


def test_limits_hold_for_each_batch_until_all_is_read(client: Client, prefix: str, options: dict[str, str]) -> None:
    for name in "ab":
        client.stream(prefix + name).create()
        client.stream(prefix + name).extend(range(10))
    query = Query(options | {"maxRowsPerTrigger": "6"})
    batches = [query.batch() for _ in range(8)]
    assert max(map(len, batches)) <= 6
    assert sorted(int(value) for batch in batches for value in values(batch)) == sorted([*range(10), *range(10)])


def test_a_limit_in_bytes_cuts_between_messages(client: Client, prefix: str, options: dict[str, str]) -> None:
    client.stream(f"{prefix}a").create()
    client.stream(f"{prefix}a").extend("x" * 50 for _ in range(100))
    query = Query(options | {"maxBytesPerTrigger": "1000"})
    batches = [query.batch() for _ in range(12)]
    assert max(map(len, batches)) <= 1000 // 53
    assert len(batches[0]) >= 10


def test_a_quiet_stream_is_in_the_batch_of_a_busy_one(client: Client, prefix: str, options: dict[str, str]) -> None:
    client.stream(f"{prefix}busy").create()
    client.stream(f"{prefix}busy").extend("x" * 50 for _ in range(2000))
    client.stream(f"{prefix}quiet").create(data=1)
    query = Query(options | {"maxRowsPerTrigger": "200"})
    assert {row["stream"] for row in query.batch()} == {f"{prefix}busy", f"{prefix}quiet"}


def test_streams_take_turns_when_a_batch_is_too_small_for_all(
    client: Client, prefix: str, options: dict[str, str]
) -> None:
    for name in "abc":
        client.stream(prefix + name).create()
        client.stream(prefix + name).extend(range(1000))
    query = Query(options | {"maxRowsPerTrigger": "100"})
    assert [query.batch()[0]["stream"] for _ in range(4)] == [prefix + name for name in "abca"]


def test_the_trigger_once_has_no_limits(client: Client, prefix: str, options: dict[str, str]) -> None:
    client.stream(f"{prefix}a").create()
    client.stream(f"{prefix}a").extend(range(10))
    query = Query(options | {"maxRowsPerTrigger": "3"})
    end = query.reader.latestOffset({}, ALL)
    assert len(query.read({}, end)) == 10


def test_available_now_ends_with_what_was_there(client: Client, prefix: str, options: dict[str, str]) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create(data=1)
    query = Query(options)
    query.reader.prepareForTriggerAvailableNow()
    stream.append(2)
    client.stream(f"{prefix}b").create(data=3)
    assert (values(query.batch()), query.batch()) == (["1"], [])


@pytest.mark.parametrize("fails", ["true", "false"])
def test_available_now_with_a_limit_does_not_end_at_a_stream_that_went(
    client: Client, prefix: str, options: dict[str, str], fails: str
) -> None:
    for name in "ab":
        client.stream(prefix + name).create()
        client.stream(prefix + name).extend(range(250))
    query = Query(options | {"maxRowsPerTrigger": "100", "failOnDataLoss": fails})
    query.batch()
    query.reader.prepareForTriggerAvailableNow()
    client.stream(f"{prefix}a").delete()
    if fails == "true":
        with pytest.raises(DataLoss, match="is gone"):
            any(not query.batch() for _ in range(4))
    else:
        assert [len(query.batch()) for _ in range(4)] == [100, 100, 50, 0]


@pytest.mark.parametrize("happens", ["deleted", "created anew", "cut"])
def test_a_loss_of_messages_ends_the_query(client: Client, prefix: str, options: dict[str, str], happens: str) -> None:
    query = lose(client, prefix, options, happens)
    with pytest.raises(DataLoss, match="failOnDataLoss"):
        query.batch()


@pytest.mark.parametrize("happens, left", [("deleted", []), ("created anew", ["9"]), ("cut", ["3"])])
def test_a_query_goes_on_without_what_was_lost_if_it_may(
    client: Client, prefix: str, options: dict[str, str], happens: str, left: list[str]
) -> None:
    query = lose(client, prefix, options | {"failOnDataLoss": "false"}, happens)
    assert values(query.batch()) == left


def lose(client: Client, prefix: str, options: dict[str, str], happens: str) -> Query:
    """Read the first message of a stream, and then take some away that were not read."""
    stream = client.stream(f"{prefix}a")
    stream.create(data=1)
    query = Query(options)
    query.batch()
    stream.append(2)
    if happens == "cut":
        stream.publish(b"{}", offset=stream.head().offset)
        stream.append(3)
    else:
        time.sleep(0.002)
        stream.delete()
    if happens == "created anew":
        stream.create(data=9)
    return query


@pytest.mark.parametrize("restarts", ["the query", "nothing"])
def test_a_stream_that_was_read_to_its_end_may_be_deleted(
    client: Client, prefix: str, options: dict[str, str], restarts: str
) -> None:
    stream, other = client.stream(f"{prefix}a"), client.stream(f"{prefix}b")
    stream.create(data=1)
    other.create()
    query = Query(options)
    query.batch()
    stream.delete()
    if restarts == "the query":
        query.restart()
    other.append(2)
    assert values(query.batch()) == ["2"]
    assert stream.name not in query.checkpoint[-1]


@pytest.mark.parametrize("restarts", ["the query", "nothing"])
def test_of_a_stream_that_is_deleted_with_more_than_was_read_the_rest_is_lost(
    client: Client, prefix: str, options: dict[str, str], restarts: str
) -> None:
    query = lose(client, prefix, options, "deleted")
    if restarts == "the query":
        query.restart()
    with pytest.raises(DataLoss, match=r"a' is gone; it was read until 0{15}2, and ended at 0{15}4"):
        query.batch()


def test_a_stream_that_was_read_to_its_end_may_run_out_of_time(
    client: Client, prefix: str, options: dict[str, str]
) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create(data=1, ttl_secs=1)
    query = Query(options)
    assert values(query.batch()) == ["1"]
    query.restart()
    while any(client.list(prefix)):
        time.sleep(0.05)
    client.stream(f"{prefix}b").create(data=2)
    assert values(query.batch()) == ["2"]


def test_an_expired_stream_whose_end_the_server_forgot_is_named(
    client: Client, prefix: str, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    for name, ttl_secs in (("a", 3600), ("b", None)):
        client.stream(prefix + name).create(data=1, ttl_secs=ttl_secs)
    query = Query(options)
    query.batch()
    query.checkpoint[-1][""] = "1 0-0"  # a token of an earlier run of the server
    query.restart()
    client.stream(f"{prefix}a").delete()
    client.stream(f"{prefix}c").create(data=2)
    assert values(query.batch()) == ["2"]
    assert f"may have had more messages: '{prefix}a'" in caplog.text
    query.checkpoint[-1][""] = "1 0-0"
    query.restart()
    client.stream(f"{prefix}b").delete()
    with pytest.raises(DataLoss, match="b' is gone"):
        query.batch()


def test_a_stream_that_was_closed_and_read_may_be_deleted(client: Client, prefix: str, options: dict[str, str]) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create(data=1, closed=True)
    client.stream(f"{prefix}b").create()
    query = Query(options)
    query.batch()
    stream.delete()
    query.restart()
    client.stream(f"{prefix}b").append(2)
    assert values(query.batch()) == ["2"]


def test_a_stream_that_was_cut_before_it_was_seen_is_read_from_there(
    client: Client, prefix: str, options: dict[str, str]
) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create(data=1)
    stream.publish(b"{}", offset=stream.head().offset)
    stream.append(2)
    query = Query(options)
    start, end = query.plan()
    assert values(query.read(start, end)) == ["2"]


def test_a_stream_that_is_gone_when_tasks_come_to_it_is_a_loss(
    client: Client, prefix: str, options: dict[str, str]
) -> None:
    client.stream(f"{prefix}a").create(data=1)
    query = Query(options)
    start, end = query.plan()
    client.stream(f"{prefix}a").delete()
    with pytest.raises(DataLoss, match="is gone"):
        query.read(start, end)


@pytest.fixture(params=["shorter", "longer"])
def logged(request: pytest.FixtureRequest, client: Client, prefix: str, options: dict[str, str]) -> Query:
    """A query with a logged batch of a stream that was created anew before the batch was read."""
    stream = client.stream(f"{prefix}a")
    stream.create()
    stream.extend([1, 2])
    query = Query(options)
    query.batch()
    stream.extend([3, 4])
    query.checkpoint.append(query.plan()[1])
    stream.delete()
    stream.create()
    stream.extend([5] if request.param == "shorter" else [5, 6, 7, 8, 9])
    query.restart()
    return query


def again(query: Query, reads: str) -> list[Any]:
    """Run the batch again that was logged last."""
    start, end = query.checkpoint[-2:]
    return values((query.read(start, end) if reads == "tasks" else query.read_on_driver(start, end)) or [])


@pytest.mark.parametrize("reads", ["driver", "tasks"])
def test_a_logged_batch_is_not_read_from_a_stream_that_was_created_anew(logged: Query, reads: str) -> None:
    with pytest.raises(DataLoss, match="a' has another incarnation"):
        again(logged, reads)


@pytest.mark.parametrize("reads", ["driver", "tasks"])
def test_a_query_goes_on_with_a_stream_that_was_created_anew_if_it_may(
    client: Client,
    prefix: str,
    options: dict[str, str],
    logged: Query,
    reads: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lenient = Query(options | {"failOnDataLoss": "false"})
    lenient.checkpoint = logged.checkpoint
    assert again(lenient, reads) == []
    assert f"{prefix}a' has another incarnation" in caplog.text
    assert values(lenient.batch()) == [str(value) for value in client.stream(f"{prefix}a").read().all()]


def test_a_stream_that_is_created_anew_while_a_task_comes_to_it_is_a_loss(
    client: Client, prefix: str, options: dict[str, str]
) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create(data=[1, 2])
    query = Query(options)
    start, end = query.plan()
    partitions = query.reader.partitions(start, end)
    stream.delete()
    stream.create(data=[3, 4])
    with pytest.raises(DataLoss, match="a' has another incarnation"):
        [row for partition in partitions for row in query.reader.read(partition)]


def test_a_checkpoint_without_incarnations_goes_on(client: Client, prefix: str, options: dict[str, str]) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create(data=1)
    query = Query(options)
    query.batch()
    query.checkpoint = [{name: text.partition("#")[0] for name, text in query.checkpoint[-1].items()}]
    query.restart()
    assert query.batch() == []
    assert "#" in query.checkpoint[-1][stream.name]
    stream.append(2)
    assert values(query.batch()) == ["2"]


def test_a_limited_query_goes_on_where_a_stream_was_cut_if_it_may(
    client: Client, prefix: str, options: dict[str, str]
) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create()
    stream.extend(range(10))
    query = Query(options | {"maxRowsPerTrigger": "2", "failOnDataLoss": "false"})
    query.batch()
    stream.publish(b"{}", offset=stream.read(last=3).pages().__next__().offset)
    rest = [query.batch() for _ in range(3)]
    assert [value for rows in rest for value in values(rows)] == ["7", "8", "9"]


@pytest.mark.parametrize("restarts", ["the query", "nothing"])
def test_a_stream_that_was_deleted_unread_is_named(
    client: Client, prefix: str, options: dict[str, str], caplog: pytest.LogCaptureFixture, restarts: str
) -> None:
    client.stream(f"{prefix}a").create(data=1)
    query = Query(options)
    query.batch()
    unread = client.stream(f"{prefix}b").create(data=2).incarnation
    client.stream(f"{prefix}b").delete()
    client.stream(f"{prefix}a").delete()
    client.stream(f"{prefix}c").create(data=3)
    if restarts == "the query":
        query.restart()
    assert [values(query.batch()) for _ in range(2)] == [["3"], []]
    assert warnings(caplog) == [deleted_unread(f"'{prefix}b' (incarnation {unread})")]


@pytest.mark.parametrize("restarts", ["the query", "nothing"])
def test_a_stream_that_came_and_went_unread_is_named_also_if_another_has_its_name(
    client: Client, prefix: str, options: dict[str, str], caplog: pytest.LogCaptureFixture, restarts: str
) -> None:
    known, other = client.stream(f"{prefix}a"), client.stream(f"{prefix}b")
    known.create(data=1)
    query = Query(options)
    query.batch()
    unread = []
    for stream, number in ((known, 2), (known, 3), (other, 4), (other, 5)):
        stream.delete(missing_ok=True)
        unread.append(f"{stream.name!r} (incarnation {stream.create(data=number).incarnation})")
    if restarts == "the query":
        query.restart()
    assert [sorted(values(query.batch())) for _ in range(3)] == [["3", "5"], [], []]
    assert warnings(caplog) == [deleted_unread(unread[0], unread[2])]


def test_where_the_server_has_forgotten_what_came_and_went_that_is_told(
    client: Client, prefix: str, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    client.stream(f"{prefix}a").create(data=1)
    query = Query(options)
    query.batch()
    query.checkpoint[-1][VERSION_KEY] = f"{VERSION} 0-0"
    query.restart()
    assert [query.batch() for _ in range(2)] == [[], []]
    assert warnings(caplog) == [FORGOTTEN]


def deleted_unread(*streams: str) -> str:
    return f"these streams were created and deleted before they were read: {', '.join(streams)}"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_a_large_stream_is_split_among_tasks_in_order(client: Client, prefix: str, options: dict[str, str]) -> None:
    client.stream(f"{prefix}a").create()
    client.stream(f"{prefix}a").extend(["x" * 100, number] for number in range(9000))
    query = Query(options | {"minPartitions": "3", "maxPartitions": "3"})
    start, end = query.plan()
    assert len(query.reader.partitions(start, end)) == 3
    rows = query.read(start, end)
    assert [row["offset"] for row in rows] == sorted(row["offset"] for row in rows)
    assert len(rows) == 9000


def test_a_stream_is_waited_for_that_is_not_there_yet(client: Client, prefix: str, server: str) -> None:
    query = Query({"url": server, "stream": f"{prefix}later"}, STRING)
    query.batch()
    client.stream(f"{prefix}later").create(data=1)
    assert values(query.batch()) == ["1"]
