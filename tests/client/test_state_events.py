"""Messages of both dialects, as a program writes them."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from everbrook import Append, InvalidChange, Remove, Reset, Set
from everbrook.client import session_events, state_events
from everbrook.protocol import SnapshotEnd, SnapshotStart, StateMessage, parse_message

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "message, change",
    [
        (state_events.insert("user", "1", 7, txid="t"), Set("user", "1", 7, "insert", txid="t")),
        (state_events.update("user", "1", 7, old_value=None), Set("user", "1", 7, "update", None)),
        (state_events.upsert("user", "1", 7), Set("user", "1", 7, "upsert")),
        (state_events.delete("user", "1", old_value=7), Remove("user", "1", 7)),
        (state_events.reset("12"), Reset("12")),
        (state_events.snapshot_start(), SnapshotStart()),
        (state_events.snapshot_end(), SnapshotEnd()),
        (session_events.set("user", "1", None), Set("user", "1", None)),
        (session_events.remove("user", "1"), Remove("user", "1")),
        (session_events.append("chunk", "m", "Hel"), Append("chunk", "m", "Hel")),
    ],
)
def test_what_is_written_is_read_as_the_change_that_it_says(message: object, change: StateMessage) -> None:
    assert parse_message(message) == change


def test_a_time_may_be_a_date() -> None:
    assert state_events.delete("user", "1", timestamp=NOON)["headers"]["timestamp"] == "2026-11-15T12:00:00+00:00"


@pytest.mark.parametrize(
    "write",
    [
        lambda: state_events.insert("", "1", 7),
        lambda: state_events.insert("user", "1", 7, txid=""),
        lambda: state_events.delete("user", "1", timestamp=NOON.replace(tzinfo=None)),
        lambda: session_events.remove("user", ""),
    ],
)
def test_what_no_reader_would_take_is_refused_where_it_is_written(write: Callable[[], object]) -> None:
    with pytest.raises(InvalidChange, match="must be"):
        write()
