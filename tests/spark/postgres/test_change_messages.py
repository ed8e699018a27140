"""Values of Postgres' types in JSON: in the copy and in changes alike, and exactly."""

import json
from typing import Any

import psycopg
import pytest

from tests.spark.postgres.capture_query import Capture

Sql = psycopg.Connection[Any]

ARRAYS = [
    ("bool[]", "{t,f}", "[true,false]"),
    ("bytea[]", r'{"\\x00ff10"}', '["AP8Q"]'),
    ("int8[]", "{9223372036854775807}", "[9223372036854775807]"),
    ("int2[]", "{-5}", "[-5]"),
    ("int4[]", "{7}", "[7]"),
    ("oid[]", "{4294967295}", "[4294967295]"),
    ("float4[]", "{0.5,NaN}", '[0.5,"NaN"]'),
    ("float8[]", "{1e300,-Infinity}", '[1e+300,"-Infinity"]'),
    ("numeric[]", "{1.50}", "[1.50]"),
    ("json[]", r'{"{\"b\":  1}"}', '[{"b":  1}]'),
    ("jsonb[]", r'{"{\"b\":  1}"}', '[{"b": 1}]'),
    ("date[]", "{2026-02-03}", '["2026-02-03"]'),
    ("time[]", "{04:05:06}", '["04:05:06"]'),
    ("timetz[]", "{04:05:06+02}", '["04:05:06+02"]'),
    ("interval[]", "{1 day}", '["P1D"]'),
    ("uuid[]", "{123e4567-e89b-12d3-a456-426614174000}", '["123e4567-e89b-12d3-a456-426614174000"]'),
    ("timestamp[]", "{2026-02-03 04:05:06}", '["2026-02-03T04:05:06"]'),
    ("timestamptz[]", "{2026-02-03 04:05:06+00}", '["2026-02-03T04:05:06Z"]'),
    ("text[]", '{"a b"}', '["a b"]'),
    ("varchar(5)[]", "{abc}", '["abc"]'),
    ("char(3)[]", "{a}", '["a  "]'),
    ("name[]", "{items}", '["items"]'),
    ("inet[]", "{10.0.0.1/24}", '["10.0.0.1/24"]'),
    ("cidr[]", "{10.0.0.0/24}", '["10.0.0.0/24"]'),
    ("macaddr[]", "{08:00:2b:01:02:03}", '["08:00:2b:01:02:03"]'),
    ("int4range[]", '{"[1,5)"}', '["[1,5)"]'),
    ("numrange[]", '{"[1.5,2)"}', '["[1.5,2)"]'),
    ("tstzrange[]", '{"[2026-02-03 04:05:06+00,)"}', r'["[\"2026-02-03 04:05:06+00\",)"]'),
    ("daterange[]", '{"[2026-02-03,2026-02-04)"}', '["[2026-02-03,2026-02-04)"]'),
    ("int8range[]", '{"[1,5)"}', '["[1,5)"]'),
    ("tsrange[]", '{"[2026-02-03 04:05:06,)"}', r'["[\"2026-02-03 04:05:06\",)"]'),
    ("int4multirange[]", '{"{[1,5),[7,9)}"}', '["{[1,5),[7,9)}"]'),
    ("nummultirange[]", '{"{[1.5,2)}"}', '["{[1.5,2)}"]'),
    ("tsmultirange[]", '{"{[2026-02-03 04:05:06,)}"}', r'["{[\"2026-02-03 04:05:06\",)}"]'),
    ("tstzmultirange[]", '{"{[2026-02-03 04:05:06+02,)}"}', r'["{[\"2026-02-03 02:05:06+00\",)}"]'),
    ("datemultirange[]", '{"{[2026-02-03,2026-02-04)}"}', '["{[2026-02-03,2026-02-04)}"]'),
    ("int8multirange[]", '{"{[1,5)}"}', '["{[1,5)}"]'),
    ("bit(3)[]", "{101}", '["101"]'),
    ("varbit[]", "{1}", '["1"]'),
    ("point[]", '{"(1,2)"}', '["(1,2)"]'),
    ("macaddr8[]", "{08:00:2b:01:02:03:04:05}", '["08:00:2b:01:02:03:04:05"]'),
    ("tsvector[]", "{'a'}", """["'a'"]"""),
    ("pg_lsn[]", "{16/B374D848}", '["16/B374D848"]'),
    ("xid8[]", "{7}", '["7"]'),
    ("jsonpath[]", '{"$.\\"a\\""}', r'["$.\"a\""]'),
    ("floatrange[]", '{"[1.5,2)"}', '["[1.5,2)"]'),
    ("floatmultirange[]", '{"{[1.5,2)}"}', '["{[1.5,2)}"]'),
    ("information_schema.cardinal_number[]", "{5}", "[5]"),
    ("int2vector", "1 2", '"1 2"'),
    ("box[]", "{(2,2),(1,1);(4,4),(3,3)}", '"{(2,2),(1,1);(4,4),(3,3)}"'),
]
"""Arrays are JSON arrays, unless Postgres separates their elements by another character than a comma."""
VALUES: list[tuple[str, str, str | None]] = [
    ("int8", "9223372036854775807", "9223372036854775807"),
    ("int2", "-5", "-5"),
    (
        "numeric",
        "123456789012345678901234567890.12345678901234567890",
        "123456789012345678901234567890.12345678901234567890",
    ),
    ("numeric", "1.50", "1.50"),
    ("numeric", "NaN", '"NaN"'),
    ("numeric", "Infinity", '"Infinity"'),
    ("float8", "0.1", "0.1"),
    ("float8", "1e300", "1e+300"),
    ("float8", "-Infinity", '"-Infinity"'),
    ("float4", "NaN", '"NaN"'),
    ("bool", "true", "true"),
    ("text", 'quote " backslash \\ tab \t newline \n ä 🙂', '"quote \\" backslash \\\\ tab \\t newline \\n ä 🙂"'),
    ("text", "", '""'),
    ("text", "\\N", '"\\\\N"'),
    ("varchar(5)", "abc", '"abc"'),
    ("char(3)", "a", '"a  "'),
    ("timestamptz", "2026-02-03 04:05:06.789+02", '"2026-02-03T02:05:06.789Z"'),
    ("timestamptz", "infinity", '"infinity"'),
    ("timestamptz", "0044-03-15 12:00:00+00 BC", '"0044-03-15 12:00:00+00 BC"'),
    ("timestamp", "2026-02-03 04:05:06", '"2026-02-03T04:05:06"'),
    ("date", "2026-02-03", '"2026-02-03"'),
    ("date", "-infinity", '"-infinity"'),
    ("time", "04:05:06", '"04:05:06"'),
    ("timetz", "04:05:06.789+02", '"04:05:06.789+02"'),
    ("timetz", "04:05:06-05:30", '"04:05:06-05:30"'),
    ("interval", "1 year 2 days 03:04:05", '"P1Y2DT3H4M5S"'),
    ("json", '{"b": [1, 2.50],  "a": "\\u00e4"}', '{"b": [1, 2.50],  "a": "\\u00e4"}'),
    ("json", '"\\ud800"', '"\\"\\\\ud800\\""'),
    ("json", "null", "null"),
    ("jsonb", '{"b": 1, "a": "x\\ny"}', '{"a": "x\\ny", "b": 1}'),
    ("int4[]", "{1,NULL,3}", "[1,null,3]"),
    ("int4[]", "[2:3]={1,2}", "[1,2]"),
    ("int4[]", "{{1,2},{3,4}}", "[[1,2],[3,4]]"),
    ("int4[]", "{}", "[]"),
    ("text[]", '{a,"b,c","d\\"e","NULL",NULL,"{x}",""}', '["a","b,c","d\\"e","NULL",null,"{x}",""]'),
    ("timestamptz[]", '{"2026-02-03 04:05:06+00"}', '["2026-02-03T04:05:06Z"]'),
    ("jsonb[]", '{"{\\"a\\": [1]}"}', '[{"a": [1]}]'),
    ("bytea", "\\x00ff10", '"AP8Q"'),
    ("uuid", "123e4567-e89b-12d3-a456-426614174000", '"123e4567-e89b-12d3-a456-426614174000"'),
    ("mood", "happy", '"happy"'),
    ("mood[]", "{happy,sad}", '["happy","sad"]'),
    ("positive", "7", "7"),
    ("positive[]", "{7,8}", "[7,8]"),
    ("pair", '(1,"a b")', '"(1,\\"a b\\")"'),
    ("int4range", "[1,5)", '"[1,5)"'),
    ("int4multirange", "{[1,5),[7,9)}", '"{[1,5),[7,9)}"'),
    ("tstzmultirange", "{[2026-02-03 04:05:06+02,)}", r'"{[\"2026-02-03 02:05:06+00\",)}"'),
    ("floatrange", "[1.5,2)", '"[1.5,2)"'),
    ("floatmultirange", "{[1.5,2)}", '"{[1.5,2)}"'),
    ("information_schema.cardinal_number", "5", "5"),
    ("inet", "10.0.0.1/24", '"10.0.0.1/24"'),
    ("point", "(1,2)", '"(1,2)"'),
    ("bit(3)", "101", '"101"'),
    *ARRAYS,
    ("money", "1.5", None),
]


@pytest.fixture
def typed(db: Sql) -> Sql:
    """A table with a column for each of the values."""
    db.execute("CREATE TYPE mood AS ENUM ('happy', 'sad')")
    db.execute("CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    db.execute("CREATE TYPE pair AS (a int, b text)")
    db.execute("CREATE TYPE floatrange AS RANGE (subtype = float8)")
    columns = ", ".join(f"c{place} {type_}" for place, (type_, _, _) in enumerate(VALUES))
    db.execute(f"CREATE TABLE items (id int PRIMARY KEY, {columns})")
    return db


def insert(db: Sql, number: int) -> None:
    places = ", ".join(f"%s::{type_}" for type_, _, _ in VALUES)
    statement = f"INSERT INTO items VALUES ({number}, {places})"  # noqa: S608 - of the list above
    db.execute(statement, [text for _, text, _ in VALUES])


def test_values_are_the_same_in_the_copy_and_in_changes_and_exact(typed: Sql, capture: Capture) -> None:
    insert(typed, 1)
    (copied,) = capture.rows(1)
    insert(typed, 2)
    (changed,) = capture.rows(1)
    for row in (copied, changed):
        for place, (type_, text, expected) in enumerate(VALUES):
            assert expected is None or f'"c{place}":{expected},' in row["value"], (type_, text, row["value"])
        json.loads(row["value"])


def test_null_is_null_in_the_copy_and_in_changes(items: Sql, capture: Capture) -> None:
    items.execute("INSERT INTO items VALUES (3, NULL, NULL)")
    assert capture.changes(3)[2][2] == {"id": 3, "name": None, "price": None}


def test_times_do_not_depend_on_the_settings_of_the_role(db: Sql, capture: Capture) -> None:
    db.execute("CREATE TABLE items (id int PRIMARY KEY, at timestamptz)")
    name = db.info.dbname
    db.execute(f'ALTER DATABASE "{name}" SET timezone = "Asia/Tokyo"')
    db.execute(f'ALTER DATABASE "{name}" SET datestyle = "German"')
    db.execute("INSERT INTO items VALUES (1, '2026-01-02 03:04:05+00')")
    db.execute("INSERT INTO items VALUES (2, '2026-01-02 03:04:05+00')")
    assert {change[2]["at"] for change in capture.changes(2)} == {"2026-01-02T03:04:05Z"}


OPTIONAL = {
    "xml": ("<a>x</a>", '"<a>x</a>"', '["<a>x</a>"]'),
    "vector": ("[1,2.5]", '"[1,2.5]"', '["[1,2.5]"]'),
    "citext": ("Ada", '"Ada"', '["Ada"]'),
    "hstore": ('"a"=>"1"', r'"\"a\"=>\"1\""', r'["\"a\"=>\"1\""]'),
    "ltree": ("a.b", '"a.b"', '["a.b"]'),
    "cube": ("(1, 2)", '"(1, 2)"', '["(1, 2)"]'),
}
"""Types that some builds of Postgres lack, most of them from an extension of the same name."""


@pytest.mark.parametrize("type_", OPTIONAL)
def test_types_of_extensions_are_text_and_their_arrays_are_arrays(type_: str, db: Sql, capture: Capture) -> None:
    text, one, several = OPTIONAL[type_]
    try:
        if type_ != "xml":
            db.execute(f"CREATE EXTENSION {type_}")
        db.execute(f"SELECT %s::{type_}", [text])
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile) as error:
        pytest.skip(f"this Postgres was built without it: {error}")
    db.execute(f"CREATE TABLE items (id int PRIMARY KEY, one {type_}, several {type_}[])")
    for number in (1, 2):  # a row of the copy, and a change
        db.execute(f"INSERT INTO items VALUES ({number}, %s::{type_}, ARRAY[%s::{type_}])", [text, text])  # noqa: S608
        (row,) = capture.rows(1)
        assert f'"one":{one},"several":{several}}}' in row["value"]
