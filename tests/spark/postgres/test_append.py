"""Each message is a row, once: of events as they are, of any table with a mapping, and dead letters for the rest."""

from collections.abc import Callable
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from everbrook.spark.options import InvalidOption
from everbrook.spark.postgres.errors import TableChanged
from everbrook.spark.postgres.positions import Writer, unknown
from tests.spark.postgres.conftest import MakeSink
from tests.spark.postgres.stream_rows import change, end_of, event, rows, writer

Sql = Callable[..., list[Any]]
EVENTS = "SELECT stream_name, event_key, event_type, operation, payload, ds_offset FROM session_events ORDER BY id"


def test_an_event_is_a_row_of_session_events(sink: MakeSink, sql: Sql) -> None:
    sink().write(writer(), [rows(event("k", {"text": "hi"}))])
    payload = {"key": "k", "type": "message", "operation": "set", "value": {"text": "hi"}}
    assert sql(EVENTS) == [("s", "k", "message", "set", payload, "0" * 16)]


def test_both_dialects_say_what_they_do(sink: MakeSink, sql: Sql) -> None:
    reset = {"headers": {"control": "reset"}}
    sink().write(writer(), [rows(change("a", 1, operation="insert"), event("b", operation="append"), reset, 5)])
    assert sql("SELECT operation FROM session_events ORDER BY id") == ["insert", "append", "reset", None]


def test_texts_arrive_as_they_were_written(sink: MakeSink, sql: Sql) -> None:
    awkward = ["\\", "\\N", "a\tb", "line\nline\r", "\\.", '"quoted"', "日本 🌊", "", "{}", "\\u0041"]
    sink().write(writer(), [rows(*(event(text or "empty", text) for text in awkward))])
    assert sql("SELECT payload->>'value' FROM session_events ORDER BY id") == awkward
    assert sql("SELECT event_key FROM session_events ORDER BY id")[:4] == awkward[:4]


def test_rows_that_come_again_are_left_out(sink: MakeSink, sql: Sql) -> None:
    first = rows(event("a"), event("b"))
    second = rows(event("c"), start=end_of(first))
    for _ in range(2):
        assert sink().write(writer(0), [first]).refused == 0
    sink().write(writer(1), [first, second])
    sink().write(writer(1), [first, second])
    assert sql("SELECT event_key FROM session_events ORDER BY id") == ["a", "b", "c"]


def test_without_positions_the_unique_key_leaves_them_out(sink: MakeSink, sql: Sql) -> None:
    first = rows(event("a"), event("b"))
    sink().write(writer(query="one"), [first])
    sink().write(writer(query="another"), [first, rows(event("c"), start=end_of(first))])
    assert sql("SELECT event_key FROM session_events ORDER BY id") == ["a", "b", "c"]
    assert sql("SELECT * FROM everbrook_dead_letters") == []


def test_a_row_in_the_place_of_another_is_a_dead_letter(sink: MakeSink, sql: Sql) -> None:
    sink().write(writer(query="one"), [rows(event("a"))])
    sink().write(writer(query="another"), [rows(event("b"), event("c"))])
    assert sql("SELECT event_key FROM session_events ORDER BY id") == ["a", "c"]
    assert sql("SELECT reason FROM everbrook_dead_letters") == ["the table has another row for this stream and offset"]


def test_a_stream_that_was_created_anew_is_written_from_its_beginning(sink: MakeSink, sql: Sql) -> None:
    columns = {"message": "$"}
    sink("log", columns, create_table=True).write(writer(0), [rows("1", "2", "3")])
    sink("log", columns).write(writer(1), [rows("4", "5")])
    sink("log", columns).write(writer(1), [rows("4", "5")])
    assert sql("SELECT message FROM log") == [1, 2, 3, 4, 5]


def test_rows_of_another_incarnation_are_all_written(sink: MakeSink, sql: Sql) -> None:
    log = sink("log", {"message": "$"}, create_table=True)
    log.write(writer(5, "one", "kept", s="x"), [rows("1", "2", "3")])
    for _ in range(2):
        log.write(writer(0, "another", "kept", s="y"), [rows("4", "5")])
    assert sql("SELECT message FROM log") == [1, 2, 3, 4, 5]


def test_a_table_of_positions_of_an_earlier_version_is_kept(sink: MakeSink, sql: Sql) -> None:
    columns = {"message": "$"}
    sink("log", columns, create_table=True).write(writer(sink="kept"), [rows("1", "2")])
    sql("ALTER TABLE everbrook_positions DROP COLUMN incarnation")
    sink("log", columns).write(writer(0, "another", "kept", s="x"), [rows("1", "2", "3")])
    sink("log", columns).write(writer(0, "a third", "kept", s="y"), [rows("4", "5")])
    assert sql("SELECT message FROM log") == [1, 2, 3, 4, 5]


def test_streams_of_which_neither_incarnation_nor_creation_is_known_are_named(
    sink: MakeSink, sql: Sql, database: str
) -> None:
    log = sink("log", {"message": "$"}, create_table=True)
    log.write(writer(sink="kept"), [rows("1", stream=name) for name in "abc"])
    told = dict.fromkeys("abd", "x")
    with psycopg.connect(database) as connection, connection.cursor() as cursor:
        assert unknown(cursor, Writer("kept", "q", 1, told, {"a": 1})) == ["b"]
        assert unknown(cursor, Writer("another", "q", 1, told)) == []
    sql("UPDATE everbrook_positions SET incarnation = 'x'")
    with psycopg.connect(database) as connection, connection.cursor() as cursor:
        assert unknown(cursor, Writer("kept", "q", 1, told)) == []


def test_fields_go_to_the_columns_that_are_mapped(sink: MakeSink, sql: Sql) -> None:
    sql("CREATE TABLE t (id int, name text, tags text[], price numeric, at timestamptz, raw bytea, j json, src text)")
    columns = {
        "id": "value.user.id",
        "name": 'value."full name"',
        "tags": "value.tags",
        "price": "value.price",
        "at": "@time",
        "raw": "value.raw",
        "j": "value.user",
        "src": "@stream",
    }
    user = {"id": 7, "more": [1.50, None]}
    value = {"user": user, "full name": "A \\ B", "tags": ["x", 'y"\\', None], "raw": "aGk="}
    sink("t", columns).write(writer(), [rows(event("k", value | {"price": 1e-3})), rows({}, start=500)])
    found = sql("SELECT id, name, tags, price::text, at::date::text, raw, j, src FROM t ORDER BY id")
    assert found[0] == (7, "A \\ B", ["x", 'y"\\', None], "0.001", "2026-01-01", b"hi", user, "s")
    assert found[1] == (None, None, None, None, "2026-01-01", None, None, "s")


def test_numbers_keep_their_digits(sink: MakeSink, sql: Sql) -> None:
    sql("CREATE TABLE t (n numeric, whole text)")
    sink("t", {"n": "n", "whole": "$"}).write(writer(), [rows('{"n":12345678901234567890.10}')])
    assert sql("SELECT n::text, whole FROM t") == [("12345678901234567890.10", '{"n":12345678901234567890.10}')]


def test_a_column_may_take_what_another_looks_into(sink: MakeSink, sql: Sql) -> None:
    sql("CREATE TABLE t (value jsonb, id int)")
    sink("t", {"value": "value", "id": "value.id"}).write(writer(), [rows({"value": {"id": 1}}, {"value": 5})])
    assert sql("SELECT value, id FROM t") == [({"id": 1}, 1), (5, None)]


BAD = {
    "no JSON": ("{", "is no JSON"),
    "a NUL": ('{"n": 1, "t": "\\u0000"}', "U+0000"),
    "a NUL in the whole": ('{"n": 1, "other": "\\u0000"}', "U+0000"),
    "a wrong type": ('{"n": "many"}', "invalid input syntax for type integer"),
    "too large": ('{"n": 3000000000}', "out of range"),
    "too long": ('{"n": 1, "t": "123456"}', "too long"),
    "nothing": ('{"t": "x"}', "null value in column"),
    "a rule of the table": ('{"n": -1}', "violates check constraint"),
    "a missing reference": ('{"n": 1, "r": 9}', "violates foreign key"),
    "a number beyond all": ('{"n": 1, "x": 1e999999}', "numeric"),
    "a second of its kind": ('{"n": 1, "u": 1}', "duplicate key"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_does_not_fit_is_a_dead_letter_and_the_rest_is_written(sink: MakeSink, sql: Sql, kind: str) -> None:
    sql("CREATE TABLE other (id int PRIMARY KEY)")
    sql(
        "CREATE TABLE t (n int NOT NULL CHECK (n >= 0), t varchar(5), u int UNIQUE, whole jsonb,"
        " r int REFERENCES other DEFERRABLE INITIALLY DEFERRED)"
    )
    sql("INSERT INTO t (n, u) VALUES (0, 1)")
    payload, reason = BAD[kind]
    good = [{"n": n} for n in range(1, 40)]
    columns = {"n": "n", "t": "t", "u": "u", "r": "r", "whole": "$"}
    written = sink("t", columns).write(writer(), [rows(*good[:23], payload, *good[23:])])
    assert (written.rows, written.refused) == (39, 1)
    assert sql("SELECT n FROM t WHERE whole IS NOT NULL ORDER BY n") == list(range(1, 40))
    found = sql("SELECT stream, payload, reason, sink, table_name FROM everbrook_dead_letters")
    assert found[0][:2] == ("s", payload.encode())
    assert reason in found[0][2]


def test_bytes_that_are_no_text_are_dead_letters_but_fit_in_bytes(sink: MakeSink, sql: Sql) -> None:
    sql("CREATE TABLE raw (payload bytea)")
    messages = rows(b"\xff\xfe", b"fine")
    sink("raw", {"payload": "$"}).write(writer(query="raw"), [messages])
    sink("texts", {"payload": "$"}, create_table=True).write(writer(query="text"), [rows(b"\xff", b'"fine"')])
    assert sql("SELECT payload FROM raw") == [b"\xff\xfe", b"fine"]
    assert sql("SELECT payload FROM texts") == ["fine"]
    assert sql("SELECT payload FROM everbrook_dead_letters") == [b"\xff"]


def test_many_bad_rows_among_many_are_all_found(sink: MakeSink, sql: Sql) -> None:
    sql("CREATE TABLE t (n int)")
    messages = [{"n": "bad" if n % 97 == 0 else n} for n in range(5000)]
    written = sink("t", {"n": "n"}).write(writer(), [rows(*messages)])
    assert (written.rows, written.refused) == (5000 - 52, 52)
    assert sql("SELECT count(*) FROM t")[0] == 5000 - 52


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a column that is not there": ({"columns": {"nmae": "n"}}, "names 'nmae', which 't' does not have. It has id, n"),
    "a column that fills itself": ({"columns": {"id": "n", "n": "n"}}, "'id', which the database itself fills"),
    "a column that is left out": ({"columns": {"note": "n"}}, "the column 'n' of 't' takes no NULL"),
    "no path": ({"columns": {"n": "@nothing"}}, "the path of the column 'n' must be one of @stream"),
    "half a path": ({"columns": {"n": "value..id"}}, "the path of the column 'n' must be $"),
    "no columns": ({"columns": {}}, "must name one column at least"),
    "no mode": ({"columns": {"n": "n"}, "mode": "replace"}, "mode must be 'append' or 'state', got 'replace'"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_mapping_is_told_before_anything_is_written(sink: MakeSink, sql: Sql, kind: str) -> None:
    sql("CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, n int NOT NULL, note text)")
    options, message = WRONG[kind]
    with pytest.raises(InvalidOption) as error:
        sink("t", **options)
    assert message in str(error.value)


def test_a_table_that_is_not_there_is_told(sink: MakeSink) -> None:
    with pytest.raises(TableChanged, match="no table 'nowhere'"):
        sink("nowhere", {"n": "n"})


def test_session_events_that_were_there_get_the_key(sink: MakeSink, sql: Sql) -> None:
    sql("CREATE TABLE session_events (id serial, stream_name text, event_key text, event_type text)")
    sql("ALTER TABLE session_events ADD operation text, ADD payload jsonb, ADD ds_offset text")
    for query in ("one", "another"):
        sink().write(writer(query=query), [rows(event("a"))])
    assert sql("SELECT count(*) FROM session_events") == [1]


def test_a_table_may_be_in_a_schema_and_have_any_name(sink: MakeSink, sql: Sql) -> None:
    sql('CREATE SCHEMA "My Schema"')
    sink("My Schema.The Table", {"a%s b": "$", 'q"': "@stream"}, create_table=True).write(writer(), [rows("1")])
    assert sql('SELECT * FROM "My Schema"."The Table"') == [(1, "s")]


def test_of_several_rows_of_one_message_none_is_lost(sink: MakeSink, sql: Sql) -> None:
    """A table without the unique key takes all of them. One with it takes the first, and the others are told."""
    exploded = pa.concat_batches([rows({"n": 1}), rows({"n": 2}), rows({"n": 3})])
    columns = {"n": "n", "stream": "@stream", "position": "@offset"}
    sql("CREATE TABLE free (n int, stream text, position text)")
    sql("CREATE TABLE kept (n int, stream text, position text, UNIQUE (stream, position))")
    for table in ("free", "kept"):
        sink(table, columns).write(writer(query=table), [exploded])
    assert (sql("SELECT n FROM free"), sql("SELECT n FROM kept")) == ([1, 2, 3], [1])
    assert sql("SELECT payload FROM everbrook_dead_letters ORDER BY id") == [b'{"n": 2}', b'{"n": 3}']
