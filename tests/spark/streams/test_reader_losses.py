"""Losses in micro-batches: deleted, expired, cut and re-created streams end a query, or are passed over if they may."""

import time
from typing import Any

import pytest

from everbrook import Client
from everbrook.spark.streams.losses import FORGOTTEN, DataLoss
from everbrook.spark.streams.offsets import VERSION, VERSION_KEY
from tests.spark.readers import Query, values


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
