"""Appending: a batch is in a stream once, however often and in whatever way it is written."""

from concurrent.futures import ThreadPoolExecutor
from random import Random
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from everbrook import Client
from everbrook.protocol.errors import StreamNotFound
from everbrook.spark.connection import Connection
from everbrook.spark.options import InvalidOption, ServerOptions, SinkOptions
from everbrook.spark.streams.appender import Appender, BatchTooLarge, Producer, QuerySuperseded, StreamDeleted
from everbrook.spark.streams.messages import InvalidRow

ROWS = st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 99)), min_size=1, max_size=30)


def table(rows: list[tuple[str, str]], order: list[int] | None = None) -> pa.Table:
    columns = {
        "stream": pa.array([stream for stream, _ in rows], pa.string()),
        "message": pa.array([message.encode() for _, message in rows], pa.binary()),
    }
    return pa.table(columns if order is None else columns | {"by_0": pa.array(order)})


@pytest.fixture
def options() -> SinkOptions:
    return SinkOptions(ServerOptions(), auto_create=True)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, again=st.randoms(use_true_random=False), number=st.uuids())
def test_a_batch_that_is_written_again_in_any_order_changes_nothing(
    client: Client,
    connection: Connection,
    options: SinkOptions,
    rows: list[tuple[str, int]],
    again: Random,
    number: UUID,
) -> None:
    named = [(f"{number}/{stream}", str(message)) for stream, message in rows]
    appender = Appender(connection, options)
    appender.append(Producer("spark-q", 0), table(named))
    first = {stream: client.stream(stream).read().all() for stream, _ in named}
    again.shuffle(named)
    appender.append(Producer("spark-q", 0), table(named))
    assert {stream: client.stream(stream).read().all() for stream in first} == first


def test_rows_keep_their_order_in_each_stream(
    client: Client, connection: Connection, options: SinkOptions, prefix: str
) -> None:
    rows = [(f"{prefix}{number % 2}", str(number)) for number in range(10)]
    Appender(connection, options).append(Producer("spark-q", 0), table(rows))
    assert client.stream(f"{prefix}1").read().all() == [1, 3, 5, 7, 9]


def test_rows_are_put_in_the_order_that_was_asked_for(
    client: Client, connection: Connection, options: SinkOptions, prefix: str
) -> None:
    rows = table([(f"{prefix}a", "1"), (f"{prefix}a", "2"), (f"{prefix}a", "3")], [30, 10, 20])
    Appender(connection, options).append(Producer("spark-q", 0), rows)
    assert client.stream(f"{prefix}a").read().all() == [2, 3, 1]


def test_the_next_batch_follows_even_where_batches_had_no_rows_for_a_stream(
    client: Client, connection: Connection, options: SinkOptions, prefix: str
) -> None:
    for batch in (3, 7):
        Appender(connection, options).append(Producer("spark-q", batch), table([(f"{prefix}a", str(batch))]))
    assert client.stream(f"{prefix}a").read().all() == [3, 7]


def test_a_batch_that_others_have_gone_beyond_is_refused(
    connection: Connection, options: SinkOptions, prefix: str
) -> None:
    appender = Appender(connection, options)
    appender.append(Producer("spark-q", 7), table([(f"{prefix}a", "1")]))
    with pytest.raises(QuerySuperseded, match="batch 3 can't be written"):
        appender.append(Producer("spark-q", 3), table([(f"{prefix}a", "1")]))


def test_rows_without_an_order_may_be_several_appends_and_are_once_there_all_the_same(
    client: Client, connection: Connection, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = SinkOptions(ServerOptions(), auto_create=True, max_append_bytes=20)
    rows = [(f"{prefix}a", str(number % 20)) for number in range(30)]
    for seed in range(3):
        Random(seed).shuffle(rows)
        Appender(connection, options).append(Producer("spark-q", 0), table(rows))
    assert sorted(client.stream(f"{prefix}a").read().all()) == sorted(number % 20 for number in range(30))
    assert "sorted by their bytes. Set the option orderBy" in caplog.text


def test_rows_in_order_may_be_several_appends_and_are_once_there_all_the_same(
    client: Client, connection: Connection, prefix: str
) -> None:
    options = SinkOptions(ServerOptions(), auto_create=True, max_append_bytes=20)
    rows = [(f"{prefix}a", str(number)) for number in range(30)]
    appender = Appender(connection, options)
    appender.append(Producer("spark-q", 0), table(rows, list(range(30))))
    appender.append(Producer("spark-q", 0), table(rows[::-1], list(range(30))[::-1]))
    assert client.stream(f"{prefix}a").read().all() == list(range(30))


def test_a_lone_surrogate_is_json(client: Client, connection: Connection, options: SinkOptions, prefix: str) -> None:
    """Gap G-03."""
    Appender(connection, options).append(Producer("spark-q", 0), table([(f"{prefix}a", r'"\ud83d"')]))
    assert client.stream(f"{prefix}a").read().bytes() == rb'["\ud83d"]'


@pytest.mark.parametrize("value", ["1,2", "", "{", "text", '"a" "b"'])
def test_what_is_not_one_json_value_is_refused(
    client: Client, connection: Connection, options: SinkOptions, prefix: str, value: str
) -> None:
    with pytest.raises(InvalidRow, match="takes JSON"):
        Appender(connection, options).append(Producer("spark-q", 0), table([(f"{prefix}a", value)]))
    assert client.stream(f"{prefix}a").read().all() == []


@pytest.mark.parametrize(
    "messages, words",
    [(1, r"one message of 70000004 bytes .* leave such rows out"), (2, r"140000007 bytes .* at once")],
)
def test_what_the_server_takes_at_no_time_is_told_with_the_way_out(
    connection: Connection, prefix: str, messages: int, words: str
) -> None:
    options = SinkOptions(ServerOptions(), auto_create=True, max_append_bytes=200_000_000)
    large = f'"{"x" * 70_000_000}"'
    with pytest.raises(BatchTooLarge, match=words):
        Appender(connection, options).append(Producer("spark-q", 0), table([(f"{prefix}a", large)] * messages))


def messages_of(client: Client, name: str) -> list[bytes]:
    """The messages of a stream of text, each by itself."""
    return [frame.payload for frames in client.stream(name).frames() for frame in frames]


@pytest.mark.parametrize("content_type", ["text/plain", "application/octet-stream"])
@pytest.mark.parametrize("count", [3, 200])
def test_each_row_is_a_message_in_streams_of_text_and_bytes_too(
    client: Client, connection: Connection, prefix: str, content_type: str, count: int
) -> None:
    options = SinkOptions(ServerOptions(), auto_create=True, content_type=content_type)
    rows = [(f"{prefix}a", f"{number}\n") for number in range(count)]
    for order in (1, -1):
        turned = table(rows[::order], list(range(count))[::order])
        Appender(connection, options).append(Producer("spark-q", 0), turned)
    assert messages_of(client, f"{prefix}a") == [f"{number}\n".encode() for number in range(count)]


def test_tasks_that_run_at_once_for_the_same_rows_write_them_once(
    client: Client, connection: Connection, prefix: str
) -> None:
    """Spark starts a slow task a second time, and a killed one again."""
    options = SinkOptions(ServerOptions(), auto_create=True, content_type="text/plain")
    rows = table([(f"{prefix}a", f"{number}\n") for number in range(300)], list(range(300)))
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(Appender(connection, options).append, Producer("spark-q", 0), rows) for _ in range(4)]
        for each in done:
            each.result()
    assert messages_of(client, f"{prefix}a") == [f"{number}\n".encode() for number in range(300)]


def test_rows_of_text_need_an_order_before_anything_is_written(
    client: Client, connection: Connection, options: SinkOptions, prefix: str
) -> None:
    client.stream(f"{prefix}b").create(content_type="text/plain")
    rows = table([(f"{prefix}a", "1"), (f"{prefix}b", "2"), (f"{prefix}b", "3")])
    with pytest.raises(InvalidOption, match=r"is of text/plain, so each row .* orderBy"):
        Appender(connection, options).append(Producer("spark-q", 0), rows)
    assert client.stream(f"{prefix}a").read().all() == []


def test_an_empty_row_is_no_message(client: Client, connection: Connection, options: SinkOptions, prefix: str) -> None:
    client.stream(f"{prefix}a").create(content_type="text/plain")
    with pytest.raises(InvalidRow, match="has no empty messages"):
        Appender(connection, options).append(Producer("spark-q", 0), table([(f"{prefix}a", "")]))


def test_a_batch_that_is_written_once_needs_no_order(client: Client, connection: Connection, prefix: str) -> None:
    options = SinkOptions(ServerOptions(), auto_create=True, max_append_bytes=20)
    rows = [(f"{prefix}a", str(number)) for number in range(30)]
    Appender(connection, options).append(Producer("spark-b", 0, repeats=False), table(rows))
    assert client.stream(f"{prefix}a").read().all() == list(range(30))


def test_a_stream_that_is_not_there_is_not_created_unasked(connection: Connection, prefix: str) -> None:
    with pytest.raises(StreamNotFound, match="autoCreate"):
        Appender(connection, SinkOptions(ServerOptions())).append(Producer("q", 0), table([(f"{prefix}a", "1")]))


def test_a_stream_that_was_deleted_under_the_query_is_not_begun_anew_in_silence(
    client: Client, connection: Connection, options: SinkOptions, prefix: str
) -> None:
    appender = Appender(connection, options)
    appender.append(Producer("spark-q", 0), table([(f"{prefix}a", "1")]))
    client.stream(f"{prefix}a").delete()
    with pytest.raises(StreamDeleted, match="create it anew"):
        appender.append(Producer("spark-q", 1), table([(f"{prefix}a", "2")]))
    client.stream(f"{prefix}a").create()
    appender.append(Producer("spark-q", 1), table([(f"{prefix}a", "2")]))
    assert client.stream(f"{prefix}a").read().all() == [2]


def test_a_stream_that_is_gone_is_created_by_another_query(
    client: Client, connection: Connection, options: SinkOptions, prefix: str
) -> None:
    Appender(connection, options).append(Producer("spark-q", 0), table([(f"{prefix}a", "1")]))
    client.stream(f"{prefix}a").delete()
    Appender(connection, options).append(Producer("spark-other", 0), table([(f"{prefix}a", "2")]))
    assert client.stream(f"{prefix}a").read().all() == [2]


def test_a_stream_that_may_expire_is_created_again(client: Client, connection: Connection, prefix: str) -> None:
    appender = Appender(connection, SinkOptions(ServerOptions(), auto_create=True, ttl_secs=3600))
    appender.append(Producer("spark-q", 0), table([(f"{prefix}a", "1")]))
    client.stream(f"{prefix}a").delete()
    appender.append(Producer("spark-q", 1), table([(f"{prefix}a", "2")]))
    assert client.stream(f"{prefix}a").read().all() == [2]


def test_a_stream_is_closed_with_its_last_rows(
    client: Client, connection: Connection, options: SinkOptions, prefix: str
) -> None:
    rows = table([(f"{prefix}{number}", "1") for number in range(3)])
    Appender(connection, options).append(Producer("spark-q", 0), rows, close=True)
    assert all(client.stream(f"{prefix}{number}").head().closed for number in range(3))
