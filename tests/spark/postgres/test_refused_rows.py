"""A message that nobody expected never stops a query: it is written as the database has it, or a dead letter."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from everbrook.spark.postgres.errors import StatementFailed, TableChanged, fault_of
from everbrook.spark.postgres.table_sink import TableWriter
from tests.spark.postgres.conftest import MakeSink
from tests.spark.postgres.stream_rows import change, end_of, event, rows, writer

Sql = Callable[..., list[Any]]
REASONS = 'SELECT reason FROM everbrook_dead_letters ORDER BY "offset"'
GUARDED = {"stream": "@stream", "position": "@offset", "v": "v"}
UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"


@pytest.fixture
def states(sink: MakeSink, sql: Sql) -> Callable[[str], TableWriter]:
    """A table of states whose keys are of a type."""

    def make(type_: str) -> TableWriter:
        sql(f"CREATE TABLE states (id {type_} PRIMARY KEY, v jsonb, _stream text, _offset text)")
        return sink("states", {"id": "key", "v": "value"}, mode="state", entity_type="message")

    return make


SPELLINGS = {
    "int": ("1", "01"),
    "uuid": (UUID, UUID.upper()),
    "timestamptz": ("2026-01-01T00:00Z", "2026-01-01 01:00+01"),
}


@pytest.mark.parametrize("type_", SPELLINGS)
def test_two_spellings_of_a_key_are_one_entity(states: Callable[[str], TableWriter], sql: Sql, type_: str) -> None:
    one, other = SPELLINGS[type_]
    table = states(type_)
    first = rows(event(one, "a"), event(other, "b"), event(one, "c", operation="append"))
    table.write(writer(0), [first])
    assert sql("SELECT v FROM states") == ["bc"]
    table.write(writer(1), [rows(event(one, 3), change(other, operation="delete"), start=end_of(first))])
    assert sql("SELECT v FROM states") == []
    assert sql(REASONS) == []


def test_keys_that_only_a_column_takes_for_the_same_are_written_in_their_order(
    states: Callable[[str], TableWriter], sql: Sql
) -> None:
    """A varchar cuts spaces off that are too many, and says nothing."""
    states("varchar(3)").write(writer(), [rows(event("abc", 1), event("abc ", 2), event("x", 3))])
    assert sql("SELECT id, v FROM states ORDER BY id") == [("abc", 2), ("x", 3)]


def test_a_key_that_no_row_can_have_deletes_none(states: Callable[[str], TableWriter], sql: Sql) -> None:
    table = states("varchar(3)")
    first = rows(event("abc", 1), event("abcdef", 2))
    table.write(writer(0), [first])
    table.write(writer(1), [rows(change("abcdef", operation="delete"), start=end_of(first))])
    assert sql("SELECT id, v FROM states") == [("abc", 1)]
    assert sql(REASONS) == ["value too long for type character varying(3) (column id)"] * 2


@pytest.mark.parametrize("operation", ["set", "remove", "append"])
def test_a_key_with_a_nul_is_a_dead_letter(states: Callable[[str], TableWriter], sql: Sql, operation: str) -> None:
    written = states("text").write(writer(), [rows(event("x", 1), event("a\0b", "z", operation=operation))])
    assert (written.rows, written.refused) == (1, 1)
    assert sql(REASONS) == ["its key has the character U+0000, which Postgres can't keep"]


def test_lists_keep_the_digits_of_their_numbers_when_something_is_appended(
    states: Callable[[str], TableWriter], sql: Sql
) -> None:
    table = states("text")
    first = rows('{"type":"message","key":"k","operation":"set","value":[0.12345678901234567890123,1e400]}')
    table.write(writer(0), [first])
    more = '{"type":"message","key":"k","operation":"append","value":[1.50,2.5]}'
    table.write(writer(1), [rows(more, start=end_of(first))])
    assert sql("SELECT v->>0, (v->1)::numeric = 1e400, v->>2, v->>3 FROM states") == [
        ("0.12345678901234567890123", True, "1.50", "2.5")
    ]


HUGE = "1" * 5000
NUMBERS = {
    "text": ('{"k":1e400}', "1e400"),
    "numeric[]": ('{"k":[0.12345678901234567890123, 12345678901234567890123]}', "{0.12345678901234567890123,1"),
    "jsonb[]": ('{"k":[{"a":1.50}]}', '{"{\\"a\\": 1.50}"}'),
    "float8[]": ('{"k":[1e300]}', "{1e+300}"),
}


@pytest.mark.parametrize("type_", NUMBERS)
def test_numbers_are_written_as_they_are_beside_texts_with_escapes(sink: MakeSink, sql: Sql, type_: str) -> None:
    sql(f"CREATE TABLE t (n int, k {type_})")
    message, written = NUMBERS[type_]
    sink("t", {"n": "n", "k": "k"}).write(writer(), [rows({"n": 1, "k": "a\nb\\"}, message)])
    assert sql("SELECT k::text FROM t WHERE n IS NULL")[0].startswith(written)


@pytest.mark.parametrize(
    "type_,value,written",
    [
        ("bytea[]", '["aGk=", null]', "ARRAY['hi', NULL]::bytea[]"),
        ("jsonb[]", '["5", "a", 5, [1, 2], null]', """ARRAY['"5"', '"a"', '5', '[1, 2]', NULL]::jsonb[]"""),
        ("text[]", '[["a", "b"], ["c", "d"]]', "'{{a,b},{c,d}}'::text[]"),
    ],
)
def test_items_of_a_list_are_written_as_a_column_of_their_type_takes_them(
    sink: MakeSink, sql: Sql, type_: str, value: str, written: str
) -> None:
    sql(f"CREATE TABLE t (k {type_})")
    sink("t", {"k": "k"}).write(writer(), [rows(f'{{"k":{value}}}')])
    assert sql(f"SELECT k = {written} FROM t") == [True]  # noqa: S608


def test_bytes_in_a_list_that_are_no_base64_are_a_dead_letter(sink: MakeSink, sql: Sql) -> None:
    sql("CREATE TABLE t (k bytea[])")
    assert sink("t", {"k": "k"}).write(writer(), [rows({"k": ["?"]}, {"k": [5]}, {"k": ["aGk="]})]).refused == 2
    assert sql("SELECT k FROM t") == [[b"hi"]]


UNREADABLE = {
    "beyond a float": '{"k":[1e400]}',
    "beyond all": '{"k":[1e9999999999999999999999]}',
    "too many digits": f'{{"k":[{HUGE}]}}',
    "too deep": '{"k":' + "[" * 900 + "]" * 900 + "}",
    "half a character": '{"k":["\\ud800"]}',
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_lists_that_no_column_takes_are_dead_letters(sink: MakeSink, sql: Sql, kind: str) -> None:
    sql("CREATE TABLE t (k float8[])")
    written = sink("t", {"k": "k"}).write(writer(), [rows({"k": [1]}, UNREADABLE[kind], {"k": [2]})])
    assert (written.rows, written.refused) == (2, 1)
    assert sql("SELECT k FROM t") == [[1.0], [2.0]]


@pytest.mark.parametrize("payload", [b'{"k":"\xff"}', b'{"k":"\xff\\n"}', b'{"k":["\xff"]}'])
def test_a_field_that_is_no_utf_8_is_a_dead_letter(sink: MakeSink, sql: Sql, payload: bytes) -> None:
    sql("CREATE TABLE t (k text)")
    written = sink("t", {"k": "k"}).write(writer(), [rows(b'{"k":"1"}', payload, b'{"k":"2"}')])
    assert (written.rows, written.refused) == (2, 1)
    assert sql("SELECT k FROM t") == ["1", "2"]


def test_rows_that_are_there_are_known_in_a_partition_too(sink: MakeSink, sql: Sql) -> None:
    sql("CREATE TABLE t (stream text, position text, v int, UNIQUE (stream, position)) PARTITION BY HASH (stream)")
    sql("CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0)")
    for query in ("one", "another"):
        sink("t", GUARDED).write(writer(query=query), [rows({"v": 1}, {"v": 2})])
    assert sql("SELECT v FROM t ORDER BY v") == [1, 2]
    assert sql(REASONS) == []


TRIGGER = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.v = 13 THEN RAISE 'unlucky' USING ERRCODE = '{state}'; END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION refuse()
"""


@pytest.mark.parametrize("state", ["42P01", "21000", "42501", "0A000", "XX000", "P0001"])
def test_what_a_trigger_refuses_is_a_dead_letter_whatever_it_says(sink: MakeSink, sql: Sql, state: str) -> None:
    sql("CREATE TABLE t (v int)")
    sql(TRIGGER.format(state=state))
    sink("t", {"v": "v"}).write(writer(), [rows({"v": 12}, {"v": 13}, {"v": 14})])
    assert sql("SELECT v FROM t") == [12, 14]
    assert sql(REASONS) == ["unlucky"]


def test_a_state_that_a_trigger_refuses_is_a_dead_letter_and_a_lost_table_is_not(sink: MakeSink, sql: Sql) -> None:
    sql("CREATE TABLE t (id text PRIMARY KEY, v int, _stream text, _offset text)")
    sql(TRIGGER.format(state="42501"))
    table = sink("t", {"id": "key", "v": "value"}, mode="state", entity_type="message")
    table.write(writer(0), [rows(event("a", 12), event("b", 13), event("c", 14))])
    assert (sql("SELECT v FROM t ORDER BY id"), sql(REASONS)) == ([12, 14], ["unlucky"])
    sql("ALTER TABLE t RENAME TO elsewhere")
    with pytest.raises(TableChanged):
        table.write(writer(1), [rows(event("d", 15), start=500)])


def test_an_error_that_is_none_of_the_connection_is_not_told_as_one() -> None:
    assert isinstance(fault_of(psycopg.DataError("no such text"), "writing"), StatementFailed)


def test_the_name_of_a_table_may_be_quoted(sink: MakeSink, sql: Sql) -> None:
    sql('CREATE SCHEMA "My.Schema"; CREATE TABLE "My.Schema"."The ""Table" (v int)')
    sink('"My.Schema"."The ""Table"', {"v": "v"}).write(writer(), [rows({"v": 1})])
    assert sql('SELECT v FROM "My.Schema"."The ""Table"') == [1]
