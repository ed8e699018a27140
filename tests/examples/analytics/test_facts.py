"""Which messages are events that matter, who is behind them, when they were, and for how long they are remembered."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from everbrook.client import session_events, state_events
from examples.analytics.facts import events_of, facts_of
from examples.analytics.job import Places
from tests.examples.analytics.desk import Desk

AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
Read = Callable[..., list[Row]]

CHANGE = "stream STRING, offset STRING, type STRING, key STRING, operation STRING, value STRING, time TIMESTAMP"


@pytest.fixture
def read(spark: SparkSession, desk: Desk, places: Places) -> Read:
    """Append messages to a session, and give the events that are read from it."""

    def appended(*messages: object) -> list[Row]:
        desk.append("1", *messages)
        options = {"url": places.url or "", "streamPattern": places.sessions, "envelope": "change"}
        changes = spark.read.format("everbrook").options(**options).load()
        return events_of(changes).orderBy("offset").collect()

    return appended


def test_both_dialects_are_read_and_what_is_no_event_is_passed_over(read: Read) -> None:
    value = {"role": "user", "user": "ada", "at": AT.isoformat()}
    nothing = [
        {"hello": "world"},
        7,
        session_events.set("cursor", "user:ada", 1),
        session_events.append("chunk", "m", "a"),
    ]
    events = read(state_events.insert("message", "1", value), *nothing, session_events.set("message", "2", value))
    assert [(event.key, event.user, event.role) for event in events] == [("1", "ada", "user"), ("2", "ada", "user")]


def test_a_key_can_say_who_it_is(read: Read) -> None:
    (event,) = read(session_events.set("presence", "user:bob", {"status": "online"}))
    assert (event.user, event.gone) == ("bob", False)


def test_who_is_removed_or_offline_is_gone(read: Read) -> None:
    gone = (
        session_events.remove("presence", "user:bob"),
        session_events.set("presence", "user:bob", {"status": "offline"}),
    )
    assert [event.gone for event in read(*gone)] == [True, True]


@pytest.mark.parametrize(
    "said, expected",
    [
        (AT - timedelta(minutes=5), AT - timedelta(minutes=5)),
        (AT + timedelta(days=365), AT),
        ("yesterday", AT),
        (None, AT),
    ],
    ids=["late", "a clock that is ahead", "no time", "nothing said"],
)
def test_an_event_was_when_it_says_and_never_after_its_append(
    spark: SparkSession, said: datetime | str | None, expected: datetime
) -> None:
    at = said.isoformat() if isinstance(said, datetime) else said
    value = f'{{"role": "user", "at": "{at}"}}' if at else '"text"'
    row = ("sessions/1", "0", "message", "1", "upsert", value, AT)
    (event,) = events_of(spark.createDataFrame([row], CHANGE)).collect()
    assert event.at_ms == expected.timestamp() * 1000


def remembered_after(changes: DataFrame, checkpoint: Path) -> int:
    """Follow what is there, and tell how many sessions are kept in mind."""
    writer = facts_of(events_of(changes)).writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    assert query.lastProgress is not None
    return query.lastProgress.stateOperators[0].numRowsTotal


def test_a_session_that_is_silent_for_a_day_is_forgotten(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "changes").mkdir()
    changes = spark.readStream.schema(CHANGE).json(str(tmp_path / "changes"))
    remembered = []
    for day, session in enumerate(("first", "second")):
        change = {"stream": session, "offset": "0", "type": "message", "key": "1", "operation": "upsert"}
        change |= {"value": '{"role": "user"}', "time": (AT + timedelta(days=2 * day)).isoformat()}
        (tmp_path / "changes" / f"{day}.json").write_bytes(msgspec.json.encode(change))
        remembered.append(remembered_after(changes, tmp_path / "checkpoint"))
    assert remembered == [1, 1]
