"""Messages: what is made of a row."""

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
    VariantVal,
)

from everbrook.spark.options import InvalidOption, parse_sink
from everbrook.spark.streams.messages import InvalidRow, encode, layout_of
from everbrook.spark.streams.writer import TaskMessages, pack, unpack

STRING = StringType()


def schema(**fields: DataType) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in fields.items()])


def messages(rows: list[dict[str, object]], schema: StructType, **options: str) -> list[tuple[str, bytes]]:
    batch = pa.RecordBatch.from_pylist(rows)
    (encoded,) = encode([batch], layout_of(schema, parse_sink(options)))
    return [(row["stream"], row["message"]) for row in encoded.to_pylist()]


def test_a_value_of_text_is_the_message() -> None:
    rows: list[dict[str, object]] = [{"stream": "a", "value": '{"x":1}'}]
    assert messages(rows, schema(stream=STRING, value=STRING)) == [("a", b'{"x":1}')]


def test_a_value_of_bytes_is_the_message() -> None:
    assert messages([{"value": b"\x00"}], schema(value=BinaryType()), stream="a") == [("a", b"\x00")]


def test_the_other_columns_of_the_source_are_left_out() -> None:
    rows: list[dict[str, object]] = [{"stream": "from", "offset": "0", "value": "1"}]
    assert messages(rows, schema(stream=STRING, offset=STRING, value=STRING), stream="to") == [("to", b"1")]


@pytest.mark.parametrize("message, written", [("object", b'{"key":"a","value":"1"}'), ("value", b"1")])
def test_a_row_with_a_value_and_other_columns_is_what_the_option_says(message: str, written: bytes) -> None:
    rows: list[dict[str, object]] = [{"key": "a", "value": "1"}]
    assert messages(rows, schema(key=STRING, value=STRING), stream="to", message=message) == [("to", written)]


@pytest.mark.parametrize("others", ["key", "id", "_offset"])
def test_rows_that_allow_two_kinds_of_message_are_refused(others: str) -> None:
    for value in (STRING, BinaryType()):
        with pytest.raises(InvalidOption, match=r"message to value or to object\. .* parse_json\(value\)"):
            layout_of(schema(**{others: STRING, "value": value}), parse_sink({"stream": "a", "orderBy": others}))


def test_a_value_that_is_no_text_is_a_field_like_others() -> None:
    rows: list[dict[str, object]] = [{"key": "a", "value": 1}]
    found = messages(rows, schema(key=STRING, value=LongType()), stream="to")
    assert found == [("to", b'{"key":"a","value":1}')]


def test_a_message_that_is_to_be_the_value_needs_one() -> None:
    with pytest.raises(InvalidOption, match="message=value needs a column 'value'"):
        layout_of(schema(value=LongType()), parse_sink({"stream": "a", "message": "value"}))


NAN = VariantVal.parseJson('{"a":[NaN]}')
FLOATS = {
    "a double": pa.array([1.0, float("nan")]),
    "a float": pa.array([float("inf")], pa.float32()),
    "a list": pa.array([[1.0, float("-inf")]]),
    "a struct": pa.array([{"x": None}, {"x": float("nan")}], pa.struct([("x", pa.float64())])),
    "a variant": pa.array([{"value": NAN.value, "metadata": NAN.metadata}], to_arrow_type(VariantType())),
    "a map": pa.array([[("k", float("nan"))]], pa.map_(pa.string(), pa.float64())),
    "a key": pa.array([[(float("nan"), "v")]], pa.map_(pa.float64(), pa.string())),
    "a key of dates": pa.array([[(float("inf"), 0)]], pa.map_(pa.float32(), pa.timestamp("us", "UTC"))),
}


@pytest.mark.parametrize("kind", FLOATS)
def test_what_is_no_number_of_json_is_refused(kind: str) -> None:
    batch = pa.RecordBatch.from_arrays([FLOATS[kind]], names=["x"])
    with pytest.raises(InvalidRow, match="the column 'x' has nan or infinity"):
        list(encode([batch], layout_of(schema(x=STRING), parse_sink({"stream": "a"}))))


def test_times_within_values_are_of_utc_too() -> None:
    time = pa.timestamp("us", "Asia/Tokyo")
    inner = pa.array([[datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), None]], pa.list_(time))
    batch = pa.RecordBatch.from_arrays([inner], names=["t"])
    (encoded,) = encode([batch], layout_of(schema(t=STRING), parse_sink({"stream": "a"})))
    assert encoded.column("message").to_pylist() == [b'{"t":["2026-01-02T03:04:05Z",null]}']


def test_the_stream_of_a_row_is_not_in_its_object() -> None:
    rows: list[dict[str, object]] = [{"stream": "a", "n": 1}]
    assert messages(rows, schema(stream=STRING, n=LongType())) == [("a", b'{"n":1}')]


def test_values_are_written_as_json_has_them() -> None:
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
            pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
            pa.array([None], pa.string()),
        ],
        names=["t", "d", "m", "n"],
    )
    layout = layout_of(schema(t=STRING, d=STRING, m=STRING, n=STRING), parse_sink({"stream": "a"}))
    (encoded,) = encode([batch], layout)
    assert encoded.column("message").to_pylist() == [b'{"t":"2026-01-02T03:04:05Z","d":1.50,"m":{"a":1},"n":null}']


@pytest.mark.parametrize("row", [{"stream": None, "value": "1"}, {"stream": "a", "value": None}])
def test_a_row_without_a_stream_or_a_message_is_refused(row: dict[str, object]) -> None:
    other: dict[str, object] = {"stream": "a", "value": "1"}
    with pytest.raises(InvalidRow, match="null"):
        messages([other, row], schema(stream=STRING, value=STRING))


def test_rows_need_a_stream_to_go_to() -> None:
    with pytest.raises(InvalidOption, match="the columns are n"):
        layout_of(schema(n=LongType()), parse_sink({}))


def test_an_order_needs_its_columns() -> None:
    with pytest.raises(InvalidOption, match="orderBy names 'x'"):
        layout_of(schema(n=LongType()), parse_sink({"stream": "a", "orderBy": "x"}))


def test_offsets_of_the_source_are_an_order_by_themselves() -> None:
    assert layout_of(schema(offset=STRING, value=STRING), parse_sink({"stream": "a"})).order_by == ("offset",)


def test_messages_of_tasks_come_in_the_order_of_the_tasks() -> None:
    layout = layout_of(schema(value=STRING), parse_sink({"stream": "a"}))
    packed = [pack(encode([pa.RecordBatch.from_pylist([{"value": value}])], layout)) for value in "abc"]
    table = unpack([TaskMessages("q", 2, packed[2]), TaskMessages("q", 0, packed[0]), TaskMessages("q", 1, packed[1])])
    assert table is not None
    assert table.column("message").to_pylist() == [b"a", b"b", b"c"]


def test_tasks_without_rows_have_nothing_to_say() -> None:
    assert unpack([TaskMessages("q", 0, pack(iter([])))]) is None


YEAR_20000_SECS = 568_971_820_800
FAR = {
    "a time": pa.array([YEAR_20000_SECS], pa.timestamp("s", "UTC")),
    "a local time": pa.array([YEAR_20000_SECS], pa.timestamp("s")),
    "a date": pa.array([YEAR_20000_SECS // 86_400], pa.date32()),
    "a date before the year 1": pa.array([-800_000], pa.date32()),
    "a list": pa.array([[YEAR_20000_SECS]], pa.list_(pa.timestamp("s"))),
    "a struct": pa.array([{"d": YEAR_20000_SECS // 86_400}], pa.struct([("d", pa.date32())])),
    "a key": pa.array([[(YEAR_20000_SECS, 1)]], pa.map_(pa.timestamp("s", "UTC"), pa.int32())),
}


def encoded(values: pa.Array) -> list[bytes]:
    layout = layout_of(StructType([StructField("x", LongType())]), parse_sink({"stream": "s"}))
    (batch,) = encode([pa.RecordBatch.from_arrays([values], ["x"])], layout)
    return [row["message"] for row in batch.to_pylist()]


@pytest.mark.parametrize("values", FAR.values(), ids=FAR)
def test_a_time_that_python_does_not_have_is_refused(values: pa.Array) -> None:
    with pytest.raises(InvalidRow, match="the column 'x' has a date or a time outside of the years 1 to 9999"):
        encoded(values)


def test_a_key_twice_is_refused() -> None:
    with pytest.raises(InvalidRow, match="the column 'x' has a map with one key twice"):
        encoded(pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32())))


def test_keys_that_are_numbers_are_names() -> None:
    assert encoded(pa.array([[(1.5, 1)]], pa.map_(pa.float64(), pa.int32()))) == [b'{"x":{"1.5":1}}']


KEYS = [BooleanType(), DecimalType(3, 1), schema(a=STRING), ArrayType(STRING), MapType(STRING, STRING)]


@pytest.mark.parametrize("keys", KEYS, ids=DataType.simpleString)
def test_a_map_whose_keys_are_no_names_is_refused_before_anything_is_done(keys: DataType) -> None:
    of = MapType(keys, STRING)
    for column in (of, ArrayType(of), schema(m=MapType(STRING, of))):
        with pytest.raises(
            InvalidOption, match=r"the column 'x' has a map with keys of .*, which are no names of JSON"
        ):
            layout_of(schema(n=STRING, x=column), parse_sink({"stream": "s"}))
    assert layout_of(schema(value=STRING), parse_sink({"stream": "s"})).whole
