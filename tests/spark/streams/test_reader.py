"""Micro-batches: every message once, whatever happens to streams and to the query meanwhile."""

import json

import pytest

from everbrook import Client
from everbrook.spark.streams.losses import DataLoss
from tests.spark.readers import ALL, STRING, Query, values


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
