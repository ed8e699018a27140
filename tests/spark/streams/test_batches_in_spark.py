"""`spark.read` and `df.write` on a real Spark."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from everbrook import Client
from tests.kit.server_process import serving

Read = Callable[..., list[tuple[object, ...]]]


@pytest.fixture
def read(spark: SparkSession, server: str) -> Read:
    """Read a batch, and give its rows as tuples."""

    def rows(schema: str | None = None, *, columns: str = "*", **options: str) -> list[tuple[object, ...]]:
        reader = spark.read.format("everbrook").option("url", server).options(**options)
        frame = (reader.schema(schema) if schema else reader).load()
        return [tuple(row) for row in frame.selectExpr(*columns.split("; ")).collect()]

    return rows


def test_messages_of_several_streams_are_rows(client: Client, prefix: str, read: Read) -> None:
    client.stream(f"{prefix}a").create(data={"n": 1})
    client.stream(f"{prefix}b").create(data="text")
    rows = read(columns="stream; offset; value; year(time) > 2000", streamPrefix=prefix)
    assert sorted(rows) == [
        (f"{prefix}a", "0000000000000000", '{"n":1}', True),
        (f"{prefix}b", "0000000000000000", "text", True),
    ]


def test_bytes_are_bytes(client: Client, prefix: str, read: Read) -> None:
    client.stream(f"{prefix}a").create(data=b"\xff\x00")
    assert read(columns="value", stream=f"{prefix}a") == [(bytearray(b"\xff\x00"),)]


def test_a_schema_in_sql_reads_json(client: Client, prefix: str, read: Read) -> None:
    client.stream(f"{prefix}a").create(data={"id": 7, "tags": ["x"], "at": "2026-01-02T03:04:05Z"})
    found = read(
        "id INT, tags ARRAY<STRING>, at TIMESTAMP, _offset STRING",
        columns="id; tags; unix_seconds(at)",
        stream=f"{prefix}a",
    )
    assert found == [(7, ["x"], 1767323045)]


def test_a_variant_is_written_as_json_and_read_with_all_its_digits(
    spark: SparkSession, client: Client, server: str, prefix: str, read: Read
) -> None:
    json = '{"a":[1,2.50,12345678901234567.89,"x",null,{"b":true}],"s":"\U0001f375"}'
    rows = spark.sql(
        f"SELECT parse_json('{json}') AS v, array(parse_json('1')) AS l, map('k', parse_json('\"x\"')) AS m, "
        "named_struct('metadata', 'x', 'value', parse_json('[1]')) AS s, cast(NULL AS VARIANT) AS n"
    )
    writer = rows.write.format("everbrook").mode("append")
    writer.options(url=server, stream=f"{prefix}a", autoCreate="true").save()
    written = client.stream(f"{prefix}a").read().bytes().decode()
    assert written.startswith('[{"v":{"a":[1,2.50,12345678901234567.89,"x",null,{"b":true}],"s":')
    assert written.endswith('"l":[1],"m":{"k":"x"},"s":{"metadata":"x","value":[1]},"n":null}]')
    found = read(
        "v VARIANT, l ARRAY<VARIANT>, m MAP<STRING, VARIANT>, s STRUCT<metadata: STRING, value: VARIANT>, n VARIANT",
        columns="to_json(v); to_json(l); to_json(m); to_json(s); n",
        stream=f"{prefix}a",
    )
    told = '{"a":[1,2.5,12345678901234567.89,"x",null,{"b":true}],"s":"\U0001f375"}'
    assert found == [(told, "[1]", '{"k":"x"}', '{"metadata":"x","value":[1]}', None)]


def test_changes_have_their_own_columns(client: Client, prefix: str, read: Read) -> None:
    change = {"type": "user", "key": "1", "value": {"n": 1}, "headers": {"operation": "insert"}}
    client.stream(f"{prefix}a").create(data=change)
    found = read(
        columns="key; operation; get_json_object(value, '$.n'); headers['operation']",
        stream=f"{prefix}a",
        envelope="change",
    )
    assert found == [("1", "insert", "1", "insert")]


def test_a_mistake_in_an_option_is_told(read: Read) -> None:
    with pytest.raises(PySparkException, match="Did you mean streamPrefix"):
        read(streamPrefx="a")


def test_a_table_is_written_and_its_streams_are_closed(
    spark: SparkSession, client: Client, server: str, prefix: str
) -> None:
    rows = spark.range(20).selectExpr(f"concat('{prefix}', id % 2) AS stream", "id", "cast(id AS STRING) AS text")
    writer = rows.repartition(4).write.format("everbrook").mode("append")
    writer.options(url=server, autoCreate="true", closeOnFinish="true", orderBy="id").save()
    assert client.stream(f"{prefix}1").read().all() == [{"id": id_, "text": str(id_)} for id_ in range(1, 20, 2)]
    assert client.stream(f"{prefix}0").head().closed


def test_a_stream_is_never_overwritten(spark: SparkSession, server: str, prefix: str) -> None:
    writer = spark.range(1).write.format("everbrook").mode("overwrite").options(url=server, stream=f"{prefix}a")
    with pytest.raises(PySparkException, match="streams only grow"):
        writer.save()


def test_batches_of_any_number_and_size_are_written(spark: SparkSession, tmp_path: Path) -> None:
    with serving(tmp_path, DS_LIMITS__MAX_PRODUCERS_PER_STREAM="2") as started:
        url = "http://{}:{}".format(*started.address)
        for number in range(4):
            rows = spark.range(number * 10, number * 10 + 10).repartition(3).selectExpr("id AS n")
            writer = rows.write.format("everbrook").mode("append")
            writer.options(url=url, stream="a", autoCreate="true", maxAppendBytes="20").save()
        with Client(url) as client:
            assert sorted(value["n"] for value in client.stream("a").read().all()) == list(range(40))


def test_rows_of_text_are_messages_each(
    spark: SparkSession, client: Client, server: str, prefix: str, read: Read
) -> None:
    rows = spark.range(5).selectExpr("concat('line ', id) AS value").coalesce(1)
    writer = rows.write.format("everbrook").mode("append")
    writer.options(url=server, stream=f"{prefix}a", autoCreate="true", contentType="text/plain").save()
    assert read(columns="value", stream=f"{prefix}a") == [(f"line {number}",) for number in range(5)]
