"""Two dialects of events, read as one kind of change. `§` are sections of the State protocol."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from everbrook import Append, InvalidChange, Remove, Reset, Set
from everbrook.protocol import SnapshotEnd, SnapshotStart, StateMessage, parse_message
from everbrook.protocol.state_changes import Change, Control, Setting, format_session, format_state
from tests.kit.generated import generated
from tests.unit.protocol.changes import appends, controls, json_values, plain_removes, plain_sets, removes, sets

USER = {"type": "user", "key": "1"}


@generated
@given(sets | removes | controls)
def test_a_message_of_the_state_protocol_is_read_as_it_was_written(message: StateMessage) -> None:
    assert parse_message(format_state(message)) == message


@generated
@given(plain_sets | plain_removes | appends)
def test_a_session_event_is_read_as_it_was_written(change: Change) -> None:
    assert parse_message(format_session(change)) == change


@pytest.mark.parametrize("operation", ["insert", "update", "upsert"])
def test_an_operation_with_a_value_sets_it(operation: Setting) -> None:
    """§4.1: the operation is kept for those who write it on."""
    message = {**USER, "value": {"name": "Ada"}, "headers": {"operation": operation}}
    assert parse_message(message) == Set("user", "1", {"name": "Ada"}, operation)


def test_a_change_tells_its_transaction_its_time_and_the_value_before() -> None:
    """§4.1."""
    headers = {"operation": "update", "txid": "7", "timestamp": "2025-01-15T10:35:00Z"}
    message = {**USER, "value": 2, "old_value": None, "headers": headers}
    assert parse_message(message) == Set("user", "1", 2, "update", None, "7", "2025-01-15T10:35:00Z")


@pytest.mark.parametrize("more", [{}, {"value": None}, {"value": {"name": "Ada"}}])
def test_a_delete_removes_whatever_its_value_says(more: dict[str, Any]) -> None:
    """§4.1.3: the value is null or missing, as a rule."""
    assert parse_message({**USER, **more, "headers": {"operation": "delete"}}) == Remove("user", "1")


@pytest.mark.parametrize(
    "control, message", [("snapshot-start", SnapshotStart()), ("snapshot-end", SnapshotEnd()), ("reset", Reset())]
)
def test_control_messages_are_read(control: str, message: Control) -> None:
    """§4.2."""
    assert parse_message({"headers": {"control": control}}) == message


def test_session_events_set_remove_and_append() -> None:
    events = [{**USER, "operation": operation, "value": "x"} for operation in ("set", "remove", "append")]
    assert [parse_message(event) for event in events] == [
        Set("user", "1", "x"),
        Remove("user", "1"),
        Append("user", "1", "x"),
    ]


def test_null_is_a_value() -> None:
    assert parse_message({**USER, "operation": "set", "value": None}) == Set("user", "1", None)


def test_fields_that_are_not_known_are_passed_over() -> None:
    message = {**USER, "operation": "set", "value": 1, "headers": {"operation": "insert", "from": "x"}, "more": 1}
    assert parse_message(message) == Set("user", "1", 1, "insert")


@pytest.mark.parametrize(
    "message, why",
    [
        (7, "a change must be a JSON object, got 7"),
        ({"type": "user"}, "a change must have headers or an operation, got {'type': 'user'}"),
        ({**USER, "headers": []}, r"headers must be an object, got \[\]"),
        ({**USER, "headers": {}}, "headers must have an operation or a control, got {}"),
        ({**USER, "headers": {"operation": "set"}}, "must be insert, update, upsert or delete, got 'set'"),
        ({**USER, "headers": {"operation": ["insert"]}}, r"or delete, got \['insert'\]"),
        ({**USER, "headers": {"operation": "insert"}}, "the operation insert needs a value, got {"),
        ({"headers": {"control": "stop"}}, "must be snapshot-start, snapshot-end or reset, got 'stop'"),
        ({"headers": {"control": "reset", "offset": 7}}, "offset must be a text that is not empty, got 7"),
        ({**USER, "operation": "insert", "value": 1}, "operation must be set, remove or append, got 'insert'"),
        ({**USER, "operation": "set"}, "the operation set needs a value"),
        ({**USER, "operation": "append"}, "the operation append needs a value"),
        ({"key": "1", "operation": "remove"}, "type must be a text that is not empty, got none"),
        ({"type": "user", "key": "", "operation": "remove"}, "key must be a text that is not empty, got ''"),
        ({"type": "user", "key": 1, "operation": "remove"}, "key must be a text that is not empty, got 1"),
        ({**USER, "headers": {"operation": "delete", "txid": ""}}, "txid must be a text that is not empty, got ''"),
        (
            {**USER, "headers": {"operation": "delete", "timestamp": "noon"}},
            "must be an RFC 3339 timestamp, got 'noon'",
        ),
        ({**USER, "headers": {"operation": "delete", "timestamp": "\ud800"}}, "must be an RFC 3339 timestamp"),
    ],
)
def test_what_fits_neither_dialect_is_refused_with_the_reason(message: object, why: str) -> None:
    """§9.1: malformed messages are rejected."""
    with pytest.raises(InvalidChange, match=why):
        parse_message(message)


fields = st.sampled_from(["type", "key", "value", "operation", "headers", "control"])
words = st.sampled_from(["insert", "set", "append", "reset", "txid", ""])
anything = json_values | words
wild = st.dictionaries(fields, anything | st.dictionaries(fields | st.just("timestamp"), anything, max_size=4))


@generated
@given(wild | anything)
def test_a_message_is_read_or_refused_and_never_crashes(message: object) -> None:
    with suppress(InvalidChange):
        assert isinstance(parse_message(message), StateMessage)


def test_a_refusal_shows_a_part_of_what_is_long() -> None:
    with pytest.raises(InvalidChange) as refusal:
        parse_message({"type": "x" * 1000, "more": [["y" * 1000] * 1000]})
    assert len(str(refusal.value)) < 1000


def test_the_state_protocol_cannot_append() -> None:
    with pytest.raises(InvalidChange, match="has no append; set the whole value of chunk 'msg:1'"):
        format_state(Append("chunk", "msg:1", "Hel"))


@pytest.mark.parametrize("control", [SnapshotStart(), SnapshotEnd("3"), Reset()])
def test_session_events_have_no_control_messages(control: Control) -> None:
    with pytest.raises(InvalidChange, match="session events have no control messages, got "):
        format_session(control)


@pytest.mark.parametrize(
    "message, written",
    [
        (Set("user", "1", "x", txid="7"), {**USER, "value": "x", "headers": {"operation": "upsert", "txid": "7"}}),
        (Remove("user", "1", old_value=None), {**USER, "old_value": None, "headers": {"operation": "delete"}}),
        (SnapshotStart("3"), {"headers": {"control": "snapshot-start", "offset": "3"}}),
        (SnapshotEnd(), {"headers": {"control": "snapshot-end"}}),
        (Reset(), {"headers": {"control": "reset"}}),
    ],
)
def test_the_words_of_the_state_protocol(message: StateMessage, written: object) -> None:
    assert format_state(message) == written


@pytest.mark.parametrize(
    "change, written",
    [
        (Set("user", "1", "x", txid="7"), {**USER, "operation": "set", "value": "x"}),
        (Remove("user", "1"), {**USER, "operation": "remove"}),
        (Append("user", "1", "y"), {**USER, "operation": "append", "value": "y"}),
    ],
)
def test_the_words_of_session_events(change: StateMessage, written: object) -> None:
    assert format_session(change) == written
