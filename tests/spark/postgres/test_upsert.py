"""Each entity is a row, which is what its last change made of it, in whichever dialect that was written."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from everbrook import InvalidChange
from everbrook.protocol import State, parse_message
from everbrook.spark.options import InvalidOption
from everbrook.spark.postgres.table_sink import TableWriter
from tests.spark.postgres.conftest import MakeSink
from tests.spark.postgres.stream_rows import change, end_of, event, rows, writer

Sql = Callable[..., list[Any]]
STATE = "SELECT event_type, event_key, value FROM states ORDER BY 1, 2"
RESET = {"headers": {"control": "reset"}}


@pytest.fixture
def states(sink: MakeSink) -> TableWriter:
    return sink("states", mode="state", create_table=True)


def test_the_last_change_of_each_entity_is_its_row(states: TableWriter, sql: Sql) -> None:
    states.write(writer(), [rows(event("a", 1), change("b", 2), event("a", 3), change("a", {"x": 4}, type_="user"))])
    assert sql(STATE) == [("message", "a", 3), ("message", "b", 2), ("user", "a", {"x": 4})]


@pytest.mark.parametrize("removal", [event("a", operation="remove"), change("a", operation="delete")])
def test_what_is_removed_is_deleted(states: TableWriter, sql: Sql, removal: dict[str, object]) -> None:
    first = rows(event("a", 1), event("b", 2))
    states.write(writer(0), [first])
    states.write(writer(1), [rows(event("b", 3), removal, event("c", 4), start=end_of(first))])
    assert sql(STATE) == [("message", "b", 3), ("message", "c", 4)]


def test_what_is_appended_goes_on_from_the_row(states: TableWriter, sql: Sql) -> None:
    first = rows(event("text", "once "), event("list", [1]))
    states.write(writer(0), [first])
    more = [event("text", "upon ", operation="append"), event("text", "a time", operation="append")]
    lists = [event("list", [2, 3], operation="append"), event("list", 4, operation="append")]
    second = rows(*more, *lists, event("new", "x", operation="append"), start=end_of(first))
    states.write(writer(1), [second])
    states.write(writer(1), [second])
    assert sql(STATE) == [
        ("message", "list", [1, 2, 3, 4]),
        ("message", "new", "x"),
        ("message", "text", "once upon a time"),
    ]


def _partial(key: str, value: object, *unchanged: str) -> dict[str, object]:
    headers = {"operation": "update", "unchanged": list(unchanged)}
    return {"type": "message", "key": key, "value": value, "headers": headers}


def test_fields_that_an_update_leaves_out_stay_as_they_were(states: TableWriter, sql: Sql) -> None:
    first = rows(change("a", {"n": 1, "big": "B"}), change("b", {"n": 1, "big": "C"}), _partial("b", {"n": 2}, "big"))
    states.write(writer(0), [first])
    states.write(writer(1), [rows(_partial("a", {"n": 2}, "big"), _partial("a", {"n": 3}, "big"), start=end_of(first))])
    assert sql(STATE) == [("message", "a", {"n": 3, "big": "B"}), ("message", "b", {"n": 2, "big": "C"})]


def test_an_update_that_leaves_out_what_no_row_has_is_a_dead_letter(
    states: TableWriter, sink: MakeSink, sql: Sql
) -> None:
    states.write(writer(), [rows(_partial("a", {"n": 2}, "big"), change("b", 1))])
    sql("CREATE TABLE t (id text PRIMARY KEY, n int, big text, _stream text, _offset text)")
    table = sink("t", {"id": "key", "n": "value.n", "big": "value.big"}, mode="state", entity_type="message")
    table.write(writer(query="t"), [rows(_partial("a", {"n": 2}, "big"))])
    assert sql("SELECT left(reason, 14) FROM everbrook_dead_letters") == ["leaves out big"] * 2
    assert (sql(STATE), sql("SELECT * FROM t")) == ([("message", "b", 1)], [])


def test_a_reset_clears_the_rows_of_its_stream_alone(states: TableWriter, sql: Sql) -> None:
    first, other = rows(event("a", 1), event("b", 1)), rows(event("a", 2), stream="other")
    states.write(writer(0), [first, other])
    states.write(writer(1), [rows(event("b", 3), RESET, event("c", 4), start=end_of(first))])
    assert sql("SELECT stream_name, event_key, value FROM states ORDER BY 1, 2") == [("other", "a", 2), ("s", "c", 4)]


def test_a_row_never_goes_back(states: TableWriter, sql: Sql) -> None:
    messages = rows(event("a", "1"), event("a", "2", operation="append"), event("a", "3", operation="append"))
    states.write(writer(query="one"), [messages])
    for count in (1, 2):
        states.write(writer(query=f"another {count}"), [messages.slice(0, count)])
        states.write(writer(query=f"one of the middle {count}"), [messages.slice(count, 1)])
    assert sql(STATE) == [("message", "a", "123")]


def test_of_a_stream_that_was_created_anew_nothing_old_stays(states: TableWriter, sql: Sql) -> None:
    states.write(writer(0), [rows(event("a", 1), event("b", 1))])
    states.write(writer(1), [rows(event("b", 2))])
    assert sql(STATE) == [("message", "b", 2)]


def test_a_table_of_ones_own_has_one_type_and_fields_as_columns(sink: MakeSink, sql: Sql) -> None:
    sql("CREATE TABLE users (id int PRIMARY KEY, name text NOT NULL, _stream text, _offset text)")
    users = sink("users", {"id": "key", "name": "value.name"}, mode="state", entity_type="user")
    ada, bob = change("1", {"name": "Ada"}, type_="user"), change("2", {"name": "Bob"}, type_="user")
    users.write(
        writer(), [rows(ada, change("9", {}, type_="other"), bob, change("1", type_="user", operation="delete"))]
    )
    assert sql("SELECT id, name, _stream FROM users") == [(2, "Bob", "s")]
    assert sql("SELECT count(*) FROM everbrook_dead_letters") == [0]


def test_a_change_that_does_not_fit_leaves_the_row_as_the_one_before_made_it(sink: MakeSink, sql: Sql) -> None:
    sql("CREATE TABLE users (id int PRIMARY KEY, age int NOT NULL, _stream text, _offset text)")
    users = sink("users", {"id": "key", "age": "value.age"}, mode="state", entity_type="user")
    ages: list[object] = [40, "old", 41, None, 42, -(10**12)]
    users.write(writer(), [rows(*(change(key, {"age": age}, type_="user") for age in ages for key in ("1", "x")))])
    assert sql("SELECT id, age FROM users") == [(1, 42)]
    assert sql("SELECT count(*) FROM everbrook_dead_letters") == [9]


BAD = {
    "no JSON": "{",
    "no change": {"hello": "world"},
    "nothing to append to": event("number", 1, operation="append"),
    "a NUL": event("k", "\0"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_change_is_a_dead_letter(states: TableWriter, sql: Sql, kind: str) -> None:
    written = states.write(writer(), [rows(event("number", 5), BAD[kind], event("b", 6))])
    assert (written.rows, written.refused) == (2, 1)
    assert sql(STATE) == [("message", "b", 6), ("message", "number", 5)]


def test_a_table_without_the_value_takes_no_appends(sink: MakeSink, sql: Sql) -> None:
    sql("CREATE TABLE t (id text PRIMARY KEY, _stream text, _offset text)")
    sink("t", {"id": "key"}, mode="state", entity_type="m").write(
        writer(), [rows(event("a", "x", type_="m", operation="append"))]
    )
    assert "no column for the whole 'value'" in sql("SELECT reason FROM everbrook_dead_letters")[0]


WRONG = {
    "no guard": ("id text PRIMARY KEY", "ALTER TABLE t ADD COLUMN _stream text"),
    "no key": ("id text, _stream text, _offset text", "needs a primary key of 't'"),
    "a key of something else": ("id text, n int PRIMARY KEY, _stream text, _offset text", "got n"),
    "several types": ("id text PRIMARY KEY, _stream text, _offset text", "entities of several types would share"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_table_that_can_hold_no_state_is_told(sink: MakeSink, sql: Sql, kind: str) -> None:
    columns, message = WRONG[kind]
    sql(f"CREATE TABLE t ({columns})")
    with pytest.raises(InvalidOption) as error:
        sink("t", {"id": "key"} | ({"n": "value.n"} if "n int" in columns else {}), mode="state")
    assert message in str(error.value)


KEYS = st.sampled_from("ab")
MESSAGES = st.one_of(
    st.builds(event, KEYS, st.sampled_from([1, "t", ["l"], None])),
    st.builds(event, KEYS, st.sampled_from(["u", ["m"], 2]), operation=st.just("append")),
    st.builds(event, KEYS, operation=st.just("remove")),
    st.builds(change, KEYS, operation=st.just("delete")),
    st.just(RESET),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=st.lists(MESSAGES, min_size=1, max_size=12), cuts=st.sets(st.integers(1, 11)))
def test_however_batches_are_cut_the_table_is_what_the_protocol_folds(
    states: TableWriter, sql: Sql, messages: list[dict[str, object]], cuts: set[int]
) -> None:
    sql("TRUNCATE states, everbrook_positions, everbrook_dead_letters")
    whole = rows(*messages)
    for number, batch in enumerate(_cut(whole, cuts)):
        states.write(writer(number), [batch])
    folded, refused = _folded(messages)
    assert sql("SELECT event_key, value FROM states ORDER BY 1") == sorted(folded.items())
    assert sql("SELECT count(*) FROM everbrook_dead_letters") == [refused]


def _cut(whole: pa.RecordBatch, cuts: set[int]) -> list[pa.RecordBatch]:
    ends = [0, *sorted(cut for cut in cuts if cut < whole.num_rows), whole.num_rows]
    return [whole.slice(start, end - start) for start, end in pairwise(ends)]


def _folded(messages: list[dict[str, object]]) -> tuple[dict[str, object], int]:
    state, refused = State(), 0
    for message in messages:
        try:
            state.apply(parse_message(message))
        except InvalidChange:
            refused += 1
    return dict(state["message"]), refused
