"""What decides in the soak of tables and streams: which messages a change makes, and how both sides may differ."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from soak.ledger import PromiseBroken
from soak.spark.cases import LOST, OUT_OF_ORDER, TWICE
from soak.sync.changes import Entry, Row, body, events_of, identity_of
from soak.sync.controls import CHANGES, EVENTS, Control
from soak.sync.outcome import PARTS, Outcome, require_found_out, require_held
from soak.sync.processes import Process, workers_among
from soak.sync.producing import Session
from soak.sync.scene import ACCOUNTS, ORDERS
from soak.sync.verdict import STRANGE, Agreement, Told, compare_changes, compare_events, compare_states, fold
from soak.sync.writing import Work, entry_of, line, statement

OLD, NEW = Row("a", "r0", 1, 1), Row("a", "r0", 2, 2)


def entry(new: Row | None, old: Row | None = None, source: str = ORDERS, place: int = 2) -> Entry:
    return Entry(2 if new is None else new.change, 0, place, source, new, old)


def told(entry: Entry) -> list[tuple[str, str, str]]:
    return [(event.stream, event.identity[1], event.identity[2]) for event in events_of(entry)]


def test_a_row_that_stays_where_it_is_is_one_message() -> None:
    assert told(entry(NEW)) == [("room/r0", "insert", "a")]
    assert told(entry(NEW, OLD)) == [("room/r0", "update", "a")]
    assert told(entry(None, OLD)) == [("room/r0", "delete", "a")]


def test_a_row_with_another_key_is_removed_and_inserted() -> None:
    assert told(entry(Row("b", "r0", 2, 2), OLD)) == [("room/r0", "delete", "a"), ("room/r0", "insert", "b")]


def test_a_row_that_moves_is_removed_from_one_stream_and_inserted_into_another() -> None:
    moved = entry(Row("a", "r1", 2, 2), OLD)
    assert told(moved) == [("room/r0", "delete", "a"), ("room/r1", "insert", "a")]


def test_where_a_table_has_one_stream_no_row_moves() -> None:
    assert told(entry(Row("a", "r1", 2, 2), OLD, ACCOUNTS)) == [("pg-accounts", "update", "a")]


@pytest.mark.parametrize("change", [entry(NEW), entry(None, OLD)], ids=["insert", "delete"])
def test_what_a_transaction_wrote_down_tells_the_same_messages(change: Entry) -> None:
    assert events_of(entry_of(line(change))) == events_of(change)


def test_a_body_that_stays_is_not_written_again() -> None:
    assert "body" in statement(entry(NEW, OLD))[0]
    assert "body" not in statement(entry(Row("a", "r0", 2, 1), OLD))[0]


def test_some_bodies_are_large() -> None:
    assert len(body(8)) > 2048 > len(body(9))


def message(operation: str, row: Row) -> dict[str, Any]:
    """Make the message that a change should make."""
    value = {"old_value" if operation == "delete" else "value": row.value}
    return {"type": ORDERS, "key": row.key, **value, "headers": {"operation": operation}}


FIRST, SECOND, THIRD = (
    entry(Row(key, "r0", place, place), place=place) for place, key in ((1, "a"), (2, "b"), (3, "c"))
)
WANTED = [event for each in (FIRST, SECOND, THIRD) for event in events_of(each)]


def compared(*entries: Entry) -> Agreement:
    return compare_changes("room/r0", [message("insert", each.new) for each in entries if each.new], WANTED)


def kinds(agreement: Agreement) -> list[str]:
    return [kind for kind, found in agreement.damage.items() if found]


def test_changes_that_came_once_and_in_order_agree() -> None:
    assert compared(FIRST, SECOND, THIRD).whole


@pytest.mark.parametrize(
    "entries, kind",
    [
        ((FIRST, THIRD), LOST),
        ((FIRST, SECOND, SECOND, THIRD), TWICE),
        ((FIRST, SECOND, THIRD, FIRST, SECOND, THIRD), TWICE),
        ((FIRST, THIRD, SECOND), OUT_OF_ORDER),
        ((FIRST, SECOND, THIRD, entry(Row("d", "r0", 4, 4))), STRANGE),
    ],
)
def test_damage_of_changes_is_told_by_its_kind_alone(entries: tuple[Entry, ...], kind: str) -> None:
    assert kinds(compared(*entries)) == [kind]


def test_a_change_with_another_value_is_strange() -> None:
    wrong = message("insert", Row("a", "r0", 1, 5))
    assert STRANGE in kinds(compare_changes("room/r0", [wrong], WANTED))


def test_copied_rows_have_no_order_among_each_other() -> None:
    copied = [entry(Row(key, "r0", number, number), place=0) for number, key in ((1, "a"), (2, "b"))]
    wanted = [event for each in copied for event in events_of(each)]
    backwards = [message("insert", each.new) for each in reversed(copied) if each.new]
    assert compare_changes("room/r0", backwards, wanted).whole


def test_a_delete_is_known_by_the_row_that_is_gone() -> None:
    assert identity_of(message("delete", OLD)) == events_of(entry(None, OLD))[0].identity


@pytest.mark.parametrize(
    "offsets, kind", [("02", LOST), ("0112", TWICE), ("021", OUT_OF_ORDER), ("0123", STRANGE), ("", LOST)]
)
def test_damage_of_rows_is_told_by_its_kind_alone(offsets: str, kind: str) -> None:
    messages = [Told(offset, {"n": offset}) for offset in "012"]
    assert compare_events("s", messages, messages).whole
    assert kinds(compare_events("s", [Told(offset, {"n": offset}) for offset in offsets], messages)) == [kind]


def test_a_row_with_another_payload_is_strange() -> None:
    assert kinds(compare_events("s", [Told("0", {"n": 1})], [Told("0", {"n": 0})])) == [STRANGE]


def test_states_differ_by_what_is_missing_and_by_what_is_there() -> None:
    expected = {("row", "a"): 1, ("row", "b"): 2}
    assert compare_states("s", dict(expected), expected).whole
    assert kinds(compare_states("s", {("row", "a"): 1}, expected)) == [LOST]
    assert kinds(compare_states("s", {**expected, ("row", "c"): 3}, expected)) == [STRANGE]


def test_both_dialects_are_folded() -> None:
    events: list[dict[str, Any]] = [
        {"type": "row", "key": "a", "value": 1, "headers": {"operation": "insert"}},
        {"headers": {"control": "reset"}},
        {"type": "row", "key": "b", "value": 1, "headers": {"operation": "upsert"}},
        {"type": "row", "key": "b", "headers": {"operation": "delete"}},
        {"type": "text", "key": "c", "operation": "set", "value": "x"},
        {"type": "text", "key": "c", "operation": "append", "value": "y"},
        {"type": "text", "key": "d", "operation": "remove"},
    ]
    assert fold(events) == {("text", "c"): "xy"}


def test_whatever_a_session_sends_can_be_folded() -> None:
    session, random = Session("session/0"), Random(7)
    sent = [*(session.next(random) for _ in range(5_000)), session.mark()]
    assert [each["n"] for each in sent] == list(range(session.sent))
    assert ("marker", "end") in fold(sent)


def test_a_transaction_changes_only_rows_that_are_there() -> None:
    work = Work(0, 0, {ACCOUNTS: {}, ORDERS: {}}, Random(7))
    for _ in range(2_000):
        work.change(ORDERS)
    there: dict[str, Row] = {}
    for each in work.entries:
        if each.old is not None:
            assert there.pop(each.old.key) == each.old
        if each.new is not None:
            assert each.new.key not in there
            there[each.new.key] = each.new
    assert there == work.rows[ORDERS]


def test_workers_are_told_by_what_they_do() -> None:
    daemon = "python\0-m\0pyspark.daemon\0pyspark.worker"
    processes = [
        Process(1, 0, "everbrook"),
        Process(2, 1, "/bin/java\0-cp"),
        Process(3, 2, daemon),
        Process(4, 3, daemon),
        Process(5, 2, "python\0-m\0pyspark.sql.streaming.python_streaming_source_runner"),
    ]
    assert workers_among(processes) == {"worker of a task": [4], "reader of a source": [5]}
    assert [each.pid for each in processes if each.is_jvm] == [2]


def outcome(found: Agreement, *killed: str) -> Outcome:
    return Outcome(kills=Counter(killed), found={CHANGES: found, EVENTS: Agreement(1)})


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: outcome(compared(FIRST, THIRD), *PARTS), "changes: 1 lost"),
        (lambda: outcome(Agreement(), *PARTS), "nothing came"),
        (lambda: outcome(compared(FIRST, SECOND, THIRD), *PARTS[1:]), "never killed: pipeline"),
    ],
)
def test_a_soak_fails_by_damage_and_by_showing_nothing(make: Callable[[], Outcome], words: str) -> None:
    require_held(outcome(compared(FIRST, SECOND, THIRD), *PARTS), 180)
    with pytest.raises(PromiseBroken, match=words):
        require_held(make(), 180)


def test_a_control_is_found_out_by_its_own_damage_alone() -> None:
    control = Control("flaw", CHANGES, LOST)
    require_found_out(control, outcome(compared(FIRST, THIRD)))
    with pytest.raises(PromiseBroken, match="was not found out"):
        require_found_out(control, outcome(compared(FIRST, SECOND, SECOND, THIRD)))
