"""Folding changes to the current value of each entity. `§` are sections of the State protocol."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from everbrook import Append, InvalidChange, Remove, Reset, Set
from everbrook.protocol import SnapshotEnd, SnapshotStart, State, StateMessage, format_snapshot, parse_snapshot
from everbrook.protocol.entities import MAX_TXIDS
from everbrook.protocol.state_changes import Setting
from tests.kit.generated import generated
from tests.unit.protocol.changes import changes_of_few


def fold(*messages: StateMessage, state: State | None = None) -> State:
    """Apply messages, passing over those that do not fit."""
    state = State() if state is None else state
    for message in messages:
        try:
            state.apply(message)
        except InvalidChange:
            continue
    return state


def test_the_example_of_the_specification() -> None:
    """§6."""
    ada, bob = Set("user", "1", {"name": "Alice"}, "insert"), Set("user", "2", {"name": "Bob"}, "insert")
    state = fold(ada, bob, Set("user", "1", {"name": "Alice Smith"}, "update"))
    assert state == {"user": {"1": {"name": "Alice Smith"}, "2": {"name": "Bob"}}}


@pytest.mark.parametrize("operation", ["insert", "update", "upsert"])
@pytest.mark.parametrize("before", [(), (Set("user", "1", "old"),)])
def test_a_set_replaces_what_is_there_if_anything_is(operation: Setting, before: tuple[StateMessage, ...]) -> None:
    assert fold(*before, Set("user", "1", "new", operation)) == {"user": {"1": "new"}}


def test_removing_what_is_not_there_does_nothing() -> None:
    assert fold(Set("user", "1", 1), Remove("user", "2"), Remove("tag", "1")) == {"user": {"1": 1}}


def test_a_type_goes_with_its_last_entity_and_looks_empty() -> None:
    state = fold(Set("user", "1", 1))
    users = state["user"]
    state.apply(Remove("user", "1"))
    assert ("user" in state, list(state), len(state), dict(users), len(state["user"])) == (False, [], 0, {}, 0)


def test_a_reset_empties_the_state_and_remembers_transactions() -> None:
    """§4.2.2."""
    state = fold(Set("user", "1", "Ada", txid="t"), Reset("12"), Append("user", "1", "Bob"))
    assert state == {"user": {"1": "Bob"}}
    assert state.seen("t")


def test_snapshot_boundaries_are_hints() -> None:
    """§4.2.1: what was there before the snapshot stays unless a reset said otherwise."""
    assert fold(Set("a", "1", 1), SnapshotStart(), Set("a", "2", 2), SnapshotEnd()) == {"a": {"1": 1, "2": 2}}


@pytest.mark.parametrize(
    "values, joined",
    [
        (["Hel", "lo"], "Hello"),
        ([[1], [2, 3]], [1, 2, 3]),
        ([[1], 2, "x", {"a": 1}], [1, 2, "x", {"a": 1}]),
        ([{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 2}]),
        ([None], [None]),
        (["", "x"], "x"),
    ],
)
def test_appends_join_to_a_text_or_a_list(values: list[Any], joined: object) -> None:
    assert fold(*[Append("chunk", "m", value) for value in values])["chunk"]["m"] == joined


@pytest.mark.parametrize("current, more", [("text", 1), ("text", ["x"]), (1, "x"), ({}, []), (None, "x")])
def test_an_append_that_does_not_fit_is_refused_and_changes_nothing(current: object, more: object) -> None:
    state = fold(Set("chunk", "m", current))
    with pytest.raises(InvalidChange, match=r"^chunk 'm' is .*, to which .* cannot be appended$"):
        state.apply(Append("chunk", "m", more))
    assert state == {"chunk": {"m": current}}


def test_a_value_that_was_taken_out_stays_as_it_was() -> None:
    state = fold(Set("log", "1", [1]))
    taken, kept = state["log"]["1"], state.snapshot()
    state.apply(Append("log", "1", 2))
    assert (taken, kept, state["log"]["1"]) == ([1], {"log": {"1": [1]}}, [1, 2])


def test_a_snapshot_cannot_be_written_to() -> None:
    kept = fold(Set("log", "1", 1)).snapshot()
    with pytest.raises(TypeError, match="does not support item assignment"):
        kept["log"]["2"] = 1  # type: ignore[index]


def test_entities_may_change_while_one_goes_over_them() -> None:
    state = fold(*[Set("user", key, key) for key in "abc"], Set("tag", "1", 1))
    for type_ in state:
        for key in state[type_]:
            state.apply(Remove(type_, key))
    assert state == {}


def test_a_copy_of_the_entities_stays_as_it_is() -> None:
    state = fold(Set("user", "1", 1))
    copied = state["user"].copy()
    state.apply(Reset())
    assert (copied, state["user"].copy()) == ({"1": 1}, {})


def test_a_state_shows_what_is_in_it() -> None:
    state = fold(Set("user", "1", 1))
    assert (repr(state), repr(state["user"])) == ("State({'user': {'1': 1}})", "{'1': 1}")


def decode(type_: str, value: Any) -> object:  # noqa: ANN401 - any JSON value
    """Numbers are written as text, words as lists of letters."""
    if type_ == "word":
        return "".join(value)
    if type_ != "number":
        return value
    if not value.isdecimal():
        raise InvalidChange(f"not a number: {value!r}")
    return int(value)


def test_values_are_kept_as_they_are_decoded() -> None:
    state = fold(Set("number", "1", "7"), Set("other", "1", "7"), state=State(decode))
    assert state == {"number": {"1": 7}, "other": {"1": "7"}}


def test_a_value_that_cannot_be_decoded_changes_nothing() -> None:
    state = fold(Set("number", "1", "7"), state=State(decode))
    with pytest.raises(InvalidChange, match="not a number: '7x'"):
        state.apply(Append("number", "1", "x"))
    assert state == {"number": {"1": 7}}


def test_what_is_appended_to_is_what_was_written() -> None:
    """Not what it was decoded to."""
    written = Set("number", "1", "7"), Append("number", "1", "0"), Set("word", "1", ["a"]), Append("word", "1", ["b"])
    assert fold(*written, state=State(decode)) == {"number": {"1": 70}, "word": {"1": "ab"}}


def test_a_value_that_is_decoded_to_a_text_cannot_be_appended_to_for_that() -> None:
    state = fold(Set("flag", "1", {"on": True}), state=State(lambda _, value: str(value)))
    with pytest.raises(InvalidChange, match=r"is {'on': True}, to which 'x' cannot be appended"):
        state.apply(Append("flag", "1", "x"))


def test_what_was_written_is_kept_where_less_was_decoded() -> None:
    state = fold(Set("word", "1", ["a"]), Set("other", "1", "b"), Append("word", "1", "c"), state=State(decode))
    assert list(state.written()) == [Set("word", "1", ["a", "c"], "insert"), Set("other", "1", "b", "insert")]


@pytest.mark.parametrize("end", [Remove("number", "1"), Reset()])
def test_nothing_is_left_of_what_is_gone(end: StateMessage) -> None:
    state = fold(Set("number", "1", "7"), end, state=State(decode))
    assert list(state.written()) == []
    state.apply(Append("number", "1", "3"))
    assert list(state.written()) == [Set("number", "1", "3", "insert")]


def test_a_transaction_is_seen_with_its_first_change() -> None:
    state = fold(Set("user", "1", 1, txid="a"), Remove("user", "2", txid="b"), Set("user", "3", 1))
    assert [state.seen(txid) for txid in "abc"] == [True, True, False]


def test_so_many_transactions_are_remembered_and_the_oldest_goes_first() -> None:
    others = [str(number) for number in range(MAX_TXIDS - 1)]
    state = fold(*[Set("user", "1", 1, txid=txid) for txid in ("a", *others, "a", "b")])
    assert [state.seen(txid) for txid in ("a", "0", "1", "b")] == [True, False, True, True]


@generated
@given(st.lists(changes_of_few, max_size=12), st.lists(st.integers(0, 12), max_size=4))
def test_folding_is_the_same_whatever_the_batches(messages: list[StateMessage], cuts: list[int]) -> None:
    """A reader that stops anywhere and goes on, from a snapshot of what it has, ends where one that read all does."""
    places = sorted({0, *cuts, len(messages)})
    state = State()
    for start, end in pairwise(places):
        state = fold(*state.written(), *messages[start:end])
    assert state == fold(*messages)


@generated
@given(st.lists(changes_of_few, max_size=12))
def test_what_is_written_before_a_reset_makes_no_difference(messages: list[StateMessage]) -> None:
    after = messages[::-1]
    assert fold(*messages, Reset(), *after) == fold(*after)


@generated
@given(st.lists(changes_of_few, max_size=12))
def test_a_state_agrees_with_its_snapshot(messages: list[StateMessage]) -> None:
    state = fold(*messages)
    assert state == state.snapshot()
    assert all(state[type_] for type_ in state)


@generated
@given(st.lists(changes_of_few, max_size=12))
def test_a_state_is_read_as_it_was_written(messages: list[StateMessage]) -> None:
    state = fold(*messages)
    assert fold(*parse_snapshot(format_snapshot(state))) == state


def test_a_snapshot_is_an_insert_for_each_entity() -> None:
    state = fold(Set("user", "1", "x", txid="7"), Set("user", "1", "y"))
    assert format_snapshot(state) == b'[{"type":"user","key":"1","value":"y","headers":{"operation":"insert"}}]'


def test_a_snapshot_may_be_in_either_dialect_and_may_be_empty() -> None:
    event = b'[{"key": "m", "type": "chunk", "operation": "append", "value": "x"}]'
    assert (parse_snapshot(event), parse_snapshot(b""), parse_snapshot(b"[]")) == ([Append("chunk", "m", "x")], [], [])


@pytest.mark.parametrize("data", [b"{}", b"[", b'"\xff"', b"[" * 10_000, b"[7]"])
def test_what_is_no_snapshot_of_a_state_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidChange, match="must be a JSON"):
        parse_snapshot(data)


def test_a_snapshot_with_a_lone_surrogate_is_read() -> None:
    """Gap G-03: it holds up nobody who reads the state."""
    snapshot = rb'[{"type":"t","key":"k","value":"\ud83d","headers":{"operation":"insert"}}]'
    assert parse_snapshot(snapshot) == [Set("t", "k", "\ufffd", "insert")]
