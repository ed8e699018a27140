"""Columns: messages as rows, of our columns or of the user's."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from everbrook import Client
from everbrook.protocol.errors import StreamNotFound
from everbrook.spark.streams.losses import DataLoss
from everbrook.spark.streams.rows import RAW
from everbrook.spark.streams.stream_source import EverbrookDataSource
from tests.spark.readers import Query, read_batch, values


def schema(**fields: object) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in fields.items()])  # type: ignore[arg-type]


@pytest.fixture
def options(server: str, prefix: str) -> dict[str, str]:
    return {"url": server, "streamPrefix": prefix}


@pytest.mark.parametrize(
    "content_type, body, value",
    [
        ("application/json", b'[{"a": 1.0}]', '{"a": 1.0}'),
        ("text/plain", "naïve".encode(), "naïve"),
        ("application/octet-stream", b"\xff\x00", b"\xff\x00"),
    ],
)
def test_a_message_is_given_as_it_is(
    client: Client, prefix: str, options: dict[str, str], content_type: str, body: bytes, value: object
) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create(content_type=content_type)
    stream.append(body.strip(b"[]"))
    (row,) = read_batch(options)
    assert (row["value"], row["content_type"]) == (value, content_type)
    assert abs(row["time"] - datetime.now(UTC)).total_seconds() < 60


def test_values_are_bytes_where_one_stream_is_no_text(client: Client, prefix: str, options: dict[str, str]) -> None:
    client.stream(f"{prefix}a").create(data={"a": 1})
    client.stream(f"{prefix}b").create(data=b"\xff")
    assert EverbrookDataSource(options).schema()["value"].dataType == BinaryType()
    assert values(read_batch(options)) == [b'{"a":1}', b"\xff"]


@pytest.mark.parametrize("more", [{}, {"valueType": "string", "mode": "FAILFAST"}])
def test_bytes_that_appear_among_text_are_refused_with_advice(
    client: Client, prefix: str, options: dict[str, str], more: dict[str, str]
) -> None:
    client.stream(f"{prefix}b").create(data=b"\xff")
    with pytest.raises(ValueError, match="set the option valueType to binary"):
        read_batch(options | more, RAW["string"])


def test_a_stream_of_bytes_that_comes_later_ends_no_query_for_text(
    client: Client, prefix: str, options: dict[str, str]
) -> None:
    client.stream(f"{prefix}a").create(data={"a": 1})
    query = Query(options | {"valueType": "string", "startingOffsets": "earliest"})
    assert values(query.batch()) == ['{"a":1}']
    client.stream(f"{prefix}b").create(data="naïve".encode())
    client.stream(f"{prefix}b").append(b"\xff")
    client.stream(f"{prefix}c").create(content_type="text/plain")
    client.stream(f"{prefix}c").append(b"na\xc3")
    assert sorted(values(query.batch()), key=str) == [None, "naïve", "na\ufffd"]


def test_the_type_of_values_is_that_of_the_option(client: Client, prefix: str, options: dict[str, str]) -> None:
    client.stream(f"{prefix}a").create(data={"a": 1})
    query = Query(options | {"valueType": "binary", "startingOffsets": "earliest"})
    client.stream(f"{prefix}b").create(data=b"\xff")
    assert values(query.batch()) == [b'{"a":1}', b"\xff"]


def test_a_character_cut_in_two_does_not_stop_a_query(client: Client, prefix: str, options: dict[str, str]) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create(content_type="text/plain")
    stream.append(b"na\xc3")
    stream.append(b"\xafve")
    assert values(read_batch(options)) == ["na\ufffd", "\ufffdve"]


def test_a_batch_begins_and_ends_where_it_is_told(client: Client, prefix: str, options: dict[str, str]) -> None:
    client.stream(f"{prefix}a").create()
    client.stream(f"{prefix}a").extend(range(10))
    starting = f'{{"{prefix}a": 4}}'
    ending = f'{{"{prefix}a": "0000000000000012"}}'
    assert values(read_batch(options | {"startingOffsets": starting, "endingOffsets": ending})) == ["2", "3", "4", "5"]


def test_a_batch_of_no_streams_has_no_rows(options: dict[str, str]) -> None:
    assert read_batch(options) == []


def test_a_batch_of_a_stream_that_is_not_there_is_refused(server: str, prefix: str) -> None:
    with pytest.raises(StreamNotFound, match=f"there is no stream '{prefix}a'"):
        read_batch({"url": server, "stream": f"/{prefix}a"})


def test_both_dialects_of_events_are_changes(client: Client, prefix: str, options: dict[str, str]) -> None:
    client.stream(f"{prefix}a").create()
    client.stream(f"{prefix}a").extend(
        [
            {"type": "user", "key": "1", "value": {"n": 1}, "headers": {"operation": "insert", "txid": "t"}},
            {"type": "user", "key": "1", "headers": {"operation": "delete"}, "old_value": {"n": 1}},
            {"key": "m", "type": "message", "operation": "append", "value": "text"},
            {"headers": {"control": "reset"}},
        ]
    )
    rows = read_batch(options | {"envelope": "change"})
    names = ("type", "key", "operation", "value", "old_value", "headers")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("user", "1", "insert", '{"n":1}', None, [("operation", "insert"), ("txid", "t")]),
        ("user", "1", "delete", None, '{"n":1}', [("operation", "delete")]),
        ("message", "m", "append", '"text"', None, None),
        (None, None, "reset", None, None, [("control", "reset")]),
    ]


def test_lone_surrogates_are_in_their_columns(client: Client, prefix: str, options: dict[str, str]) -> None:
    """Gap G-03: they make no message one that can't be read."""
    client.stream(f"{prefix}a").create()
    client.stream(f"{prefix}a").append(rb'{"s":"\ud83d","type":"t","key":"k","operation":"set","value":"\ude00"}')
    (change,) = read_batch(options | {"envelope": "change"})
    (given,) = read_batch(options, GIVEN)
    assert (change["operation"], change["value"], given["s"]) == ("upsert", r'"\ufffd"', "\ufffd")


def test_what_is_no_change_is_kept_as_a_value_without_an_operation(
    client: Client, prefix: str, options: dict[str, str]
) -> None:
    client.stream(f"{prefix}a").create(data={"other": 1})
    (row,) = read_batch(options | {"envelope": "change"})
    assert (row["operation"], row["value"]) == (None, '{"other":1}')


def test_what_is_no_change_is_an_error_if_it_has_to_be(client: Client, prefix: str, options: dict[str, str]) -> None:
    client.stream(f"{prefix}a").create(data={"other": 1})
    with pytest.raises(ValueError, match="at offset 0000000000000000 is no change"):
        read_batch(options | {"envelope": "change", "mode": "FAILFAST"})


GIVEN = schema(
    i=IntegerType(),
    f=DoubleType(),
    s=StringType(),
    b=BooleanType(),
    t=TimestampType(),
    l=ArrayType(LongType()),
    o=StructType([StructField("x", StringType())]),
    _stream=StringType(),
    _offset=StringType(),
)
MESSAGE = {
    "i": 1,
    "f": 2,
    "s": "text",
    "b": True,
    "t": "2026-01-02T03:04:05Z",
    "l": [1, 2],
    "o": {"x": "y", "more": 1},
    "other": 9,
}


def test_a_schema_of_the_user_reads_the_fields_of_json(client: Client, prefix: str, options: dict[str, str]) -> None:
    client.stream(f"{prefix}a").create(data=MESSAGE)
    (row,) = read_batch(options, GIVEN)
    assert row == {
        "i": 1,
        "f": 2.0,
        "s": "text",
        "b": True,
        "t": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "l": [1, 2],
        "o": {"x": "y"},
        "_stream": f"{prefix}a",
        "_offset": "0000000000000000",
    }


def test_one_message_that_does_not_fit_changes_nothing_for_the_others(
    client: Client, prefix: str, options: dict[str, str]
) -> None:
    client.stream(f"{prefix}a").create()
    client.stream(f"{prefix}a").extend([MESSAGE, {"i": "no number"}, [], {}])
    client.stream(f"{prefix}b").create(data=MESSAGE)
    rows = read_batch(options, GIVEN)
    assert [row["i"] for row in rows] == [1, None, None, None, 1]
    assert rows[0]["t"] == rows[4]["t"] == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_message_that_does_not_fit_is_kept_where_the_schema_has_a_place_for_it(
    client: Client, prefix: str, options: dict[str, str]
) -> None:
    client.stream(f"{prefix}a").create()
    client.stream(f"{prefix}a").extend([{"i": 1}, {"i": 2**40}])
    rows = read_batch(options, schema(i=IntegerType(), _corrupt_record=StringType()))
    assert rows == [{"i": 1, "_corrupt_record": None}, {"i": None, "_corrupt_record": '{"i":1099511627776}'}]


def test_a_message_that_does_not_fit_is_an_error_if_it_has_to_be(
    client: Client, prefix: str, options: dict[str, str]
) -> None:
    client.stream(f"{prefix}a").create(data={"i": "x"})
    with pytest.raises(ValueError, match=r"offset 0000000000000000 does not fit column 'i': it has 'x'"):
        read_batch(options | {"mode": "FAILFAST"}, schema(i=IntegerType()))


def test_types_that_json_does_not_have_are_read_from_text(client: Client, prefix: str, options: dict[str, str]) -> None:
    client.stream(f"{prefix}a").create(data={"d": "2026-01-02", "n": "1.5", "m": {"a": 1}, "s": 5})
    fields = schema(d=DateType(), n=DecimalType(10, 2), m=MapType(StringType(), LongType()), s=StringType())
    (row,) = read_batch(options, fields)
    assert row == {"d": date(2026, 1, 2), "n": Decimal("1.50"), "m": [("a", 1)], "s": "5"}


def test_lines_of_text_are_read_by_a_schema_too(client: Client, prefix: str, options: dict[str, str]) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create(content_type="application/x-ndjson")
    stream.append('{"i": 1}\n')
    stream.append("no json")
    assert read_batch(options, schema(i=IntegerType())) == [{"i": 1}, {"i": None}]


def test_the_columns_of_changes_are_fixed(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="leave the schema out"):
        EverbrookDataSource(options | {"envelope": "change"}).reader(schema(i=IntegerType()))


def test_many_streams_come_in_few_batches(client: Client, prefix: str, options: dict[str, str]) -> None:
    for number in range(30):
        client.stream(f"{prefix}{number:02}").create(data=number)
    source = EverbrookDataSource(options)
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    batches = list(reader.read(partition))
    assert [batch.num_rows for batch in batches] == [30]
    assert batches[0].column("value").to_pylist() == [str(number) for number in range(30)]


def test_a_range_that_is_not_whole_is_a_loss(client: Client, prefix: str, options: dict[str, str]) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create(data=12345)
    source = EverbrookDataSource(options)
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    stream.delete()
    stream.create(data=1)
    with pytest.raises(DataLoss, match="0000000000000006 was to be read"):
        list(reader.read(partition))
