"""Batches of several appends that are run again after a kill, with fewer rows because some were lost meanwhile."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from random import Random

import pyarrow as pa
import pytest

from everbrook import Client
from everbrook.spark.connection import Connection, Post
from everbrook.spark.options import InvalidOption, ServerOptions, SinkOptions
from everbrook.spark.streams.appender import Appender, Producer
from everbrook.spark.streams.batch import BatchUncertain
from everbrook.spark.streams.messages import InvalidRow
from tests.spark.connections import Wrapped

PRODUCER = Producer("spark-q", 4)


class Killed(Exception):
    """The process is gone."""


class Dying(Wrapped):
    """A connection whose process is killed after some appends."""

    def __init__(self, inner: Connection, appends: int) -> None:
        super().__init__(inner)
        self._appends = appends

    def post_all(self, name: str, posts: Sequence[Post]) -> bool:
        super().post_all(name, posts[: self._appends])
        raise Killed


def options(content_type: str) -> SinkOptions:
    return SinkOptions(ServerOptions(), auto_create=True, content_type=content_type, max_append_bytes=60)


def table(stream: str, rows: Sequence[tuple[int, str]]) -> pa.Table:
    """Rows with their place in the order, in another order."""
    mixed = rows[::-1]
    columns = {"stream": [stream] * len(rows), "message": [message.encode() for _, message in mixed]}
    return pa.table({**columns, "by_0": [str(place) for place, _ in mixed], "by_1": [place for place, _ in mixed]})


def messages_of(client: Client, name: str) -> list[str]:
    return [frame.payload.decode() for frames in client.stream(name).frames() for frame in frames]


def kill(connection: Connection, appends: int, content_type: str, rows: pa.Table) -> None:
    """Write a batch, and be killed after some of its appends."""
    with pytest.raises(Killed):
        Appender(Dying(connection, appends), options(content_type)).append(PRODUCER, rows)


def row(number: int) -> tuple[int, str]:
    """A row that shares its place in the order with two others, and the beginning of its message with all."""
    return 1000 + number // 3, f'"{number:04}{"x" * 10}"'


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
@pytest.mark.parametrize("seed", range(12))
def test_a_batch_that_is_run_again_with_fewer_rows_loses_and_repeats_none(
    client: Client, connection: Connection, prefix: str, seed: int, content_type: str
) -> None:
    random, stream = Random(seed), f"{prefix}a"
    rows = [row(number) for number in range(30)]
    Appender(connection, options(content_type)).append(Producer("spark-q", 3), table(stream, rows[:1]))
    kill(connection, random.randrange(1, 5), content_type, table(stream, rows))
    stored = messages_of(client, stream)
    left = [each for each in rows if random.random() < random.choice((0.1, 0.5, 0.9))] or rows[-1:]
    for _ in range(2):
        Appender(connection, options(content_type)).append(PRODUCER, table(stream, left))
    expected = stored + [message for _, message in left if message not in stored[1:]]
    assert messages_of(client, stream) == expected
    Appender(connection, options(content_type)).append(Producer("spark-q", 5), table(stream, rows[:1]))
    assert messages_of(client, stream) == [*expected, rows[0][1]]


AT = datetime(2026, 7, 1, 12, tzinfo=UTC)
ORDERS = {
    "text": pa.array(["", "b\n", "ä", None]),
    "bytes": pa.array([b"", b"\x00", b"\xff", None]),
    "int": pa.array([-5, 0, 7, None]),
    "double": pa.array([float("-inf"), -0.1, 1e300, float("nan")]),
    "decimal": pa.array([Decimal("-1.50"), Decimal("0.07"), Decimal("9.99"), None], pa.decimal128(10, 2)),
    "bool": pa.array([False, False, True, None]),
    "date": pa.array([date(1969, 1, 1), date(2026, 1, 1), date(2026, 1, 2), None]),
    "timestamp": pa.array([AT, AT + timedelta(seconds=0.5), AT + timedelta(days=1), None], pa.timestamp("us", "UTC")),
    "zoned": pa.array([AT, AT + timedelta(hours=1), AT + timedelta(150), None], pa.timestamp("us", "Europe/Berlin")),
    "local": pa.array([datetime(2026, 1, day) for day in (1, 2, 3)] + [None], pa.timestamp("us")),  # noqa: DTZ001
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("lost", range(3))
def test_a_batch_continues_in_an_order_of_each_type(
    client: Client, connection: Connection, prefix: str, order: pa.Array, lost: int
) -> None:
    columns = {"stream": [f"{prefix}a"] * 4, "message": [each.encode() for each in "pqrs"], "by_0": order}
    kill(connection, 2, "text/plain", pa.table(columns))
    Appender(connection, options("text/plain")).append(PRODUCER, pa.table(columns).slice(lost))
    assert messages_of(client, f"{prefix}a") == list("pqrs")


def test_equal_rows_are_counted(client: Client, connection: Connection, prefix: str) -> None:
    stream = f"{prefix}a"
    rows = table(stream, [(1, "same")] * 20 + [(2, "other")])
    kill(connection, 7, "text/plain", rows)
    for _ in range(2):
        Appender(connection, options("text/plain")).append(PRODUCER, rows)
    assert messages_of(client, stream) == ["same"] * 20 + ["other"]


@pytest.mark.parametrize("seed", range(6))
def test_runs_of_a_batch_with_other_rows_at_the_same_time_do_not_mix(
    client: Client, connection: Connection, prefix: str, seed: int
) -> None:
    rows = [row(number) for number in range(60)]
    fewer = Random(seed).sample(rows, 40)
    runs = [table(f"{prefix}a", each) for each in (rows, sorted(fewer), rows, sorted(fewer))]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(partial(Appender(connection, options("text/plain")).append, PRODUCER), runs))
    found = messages_of(client, f"{prefix}a")
    assert found == sorted(set(found))
    assert {message for _, message in fewer} <= set(found)


def test_a_row_that_was_lost_and_can_not_be_told_from_another_is_an_error(connection: Connection, prefix: str) -> None:
    rows = [(1, "x" * 200 + end) for end in "abc"]
    kill(connection, 2, "text/plain", table(f"{prefix}a", rows))
    with pytest.raises(BatchUncertain, match="up to a row that was lost since"):
        Appender(connection, options("text/plain")).append(PRODUCER, table(f"{prefix}a", [rows[0], rows[2]]))


def test_the_values_of_an_order_are_short(connection: Connection, prefix: str) -> None:
    rows = table(f"{prefix}a", [(1, "a"), (2, "b")])
    rows = rows.set_column(2, "by_0", pa.array(["x" * 1000] * 2))
    with pytest.raises(InvalidRow, match="Order by shorter columns"):
        Appender(connection, options("text/plain")).append(PRODUCER, rows)


def test_a_batch_that_fits_in_one_append_stores_no_place(client: Client, connection: Connection, prefix: str) -> None:
    stream = f"{prefix}a"
    for _ in range(2):
        Appender(connection, options("application/json")).append(PRODUCER, table(stream, [row(1), row(2)]))
    known = connection.producer(stream, PRODUCER.id).known
    assert known is not None
    assert known.position is None
    assert messages_of(client, stream) == [row(1)[1], row(2)[1]]


def unordered(stream: str, rows: Sequence[int]) -> pa.Table:
    messages = [row(number)[1].encode() for number in rows]
    return pa.table({"stream": [stream] * len(rows), "message": messages})


@pytest.mark.parametrize("appends", range(1, 5))
def test_a_batch_without_an_order_is_completed_whatever_order_its_rows_have(
    client: Client, connection: Connection, prefix: str, appends: int
) -> None:
    stream, random = f"{prefix}a", Random(appends)
    rows = [number % 12 for number in range(20)]
    kill(connection, appends, "application/json", unordered(stream, rows))
    appender = Appender(connection, options("application/json"))
    for _ in range(3):
        random.shuffle(rows)
        appender.append(PRODUCER, unordered(stream, rows))
    assert sorted(messages_of(client, stream)) == sorted(row(number)[1] for number in rows)
    appender.append(Producer("spark-q", 5), unordered(stream, [1]))
    Appender(connection, options("application/json")).append(Producer("spark-q", 6), unordered(stream, [2, 0]))
    assert messages_of(client, stream)[-3:] == [row(number)[1] for number in (1, 2, 0)]


def test_a_batch_without_an_order_that_has_other_rows_is_refused(
    client: Client, connection: Connection, prefix: str
) -> None:
    stream = f"{prefix}a"
    kill(connection, 1, "application/json", unordered(stream, range(12)))
    stored = messages_of(client, stream)
    with pytest.raises(BatchUncertain, match="has other rows now"):
        Appender(connection, options("application/json")).append(PRODUCER, unordered(stream, range(1, 12)))
    with pytest.raises(InvalidOption, match="with another orderBy"):
        Appender(connection, options("application/json")).append(PRODUCER, table(stream, [row(1)]))
    assert messages_of(client, stream) == stored


def test_a_whole_batch_without_an_order_stays_as_it_is_with_other_rows(
    client: Client, connection: Connection, prefix: str
) -> None:
    stream, appender = f"{prefix}a", Appender(connection, options("application/json"))
    for epoch, number in ((4, 12), (4, 13), (5, 1), (5, 14), (6, 15), (6, 2)):
        appender.append(Producer("spark-q", epoch), unordered(stream, range(number)))
        appender = Appender(connection, options("application/json"))
    assert len(messages_of(client, stream)) == 12 + 1 + 15


def test_runs_of_a_batch_without_an_order_at_the_same_time_write_it_once(
    client: Client, connection: Connection, prefix: str
) -> None:
    runs = [unordered(f"{prefix}a", Random(seed).sample(range(60), 60)) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(partial(Appender(connection, options("application/json")).append, PRODUCER), runs))
    assert sorted(messages_of(client, f"{prefix}a")) == [row(number)[1] for number in range(60)]
