"""The job on a real Spark: its figures are those that one loop over all events gives, whatever happens in between."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from everbrook import Client
from everbrook.client import session_events
from examples.analytics.job import Analytics, CheckpointMissing, Places
from examples.analytics.sessions import generate
from tests.examples.analytics.desk import Desk
from tests.examples.analytics.plain import count_plainly

pytestmark = pytest.mark.long

BEGIN = datetime.now(UTC) - timedelta(hours=2)  # who leaves does so now, in the same visit
MINUTE = "2026-01-01T10:00Z"
TIMEOUT_SECS = 120


def said(key: str, at: str, role: str = "user") -> dict[str, Any]:
    return session_events.set("message", key, {"role": role, "user": "ada", "at": f"2026-01-01T{at}Z"})


def shows(messages: int, state: Mapping[str, Mapping[str, Any]]) -> bool:
    return MINUTE in state["minute"] and state["minute"][MINUTE]["messages"] == messages


def forget_last_batches(checkpoints: Path) -> None:
    """Make it as if the driver had died before Spark noted that the last batch of each query was done."""
    for query in ("facts", "minutes", "funnels"):
        commits = [path for path in (checkpoints / query / "commits").iterdir() if path.name.isdigit()]
        max(commits, key=lambda path: int(path.name)).unlink()


def test_the_figures_are_those_of_a_plain_loop(analytics: Analytics, desk: Desk) -> None:
    events = generate(7, 60, BEGIN)
    desk.play(events)
    analytics.run_once()
    assert desk.counted() == count_plainly(events)


def test_over_restarts_and_repeated_batches_nothing_is_lost_or_counted_twice(
    analytics: Analytics, desk: Desk, places: Places
) -> None:
    events = generate(9, 30, BEGIN)
    desk.play(events[: len(events) // 2])
    analytics.run_once()
    written = desk.written()
    forget_last_batches(places.checkpoints)
    analytics.run_once()
    assert desk.written() == written
    desk.play(events[len(events) // 2 :])
    analytics.run_once()
    assert desk.counted() == count_plainly(events)


def test_a_late_message_changes_its_own_minute_and_one_that_is_too_late_none(analytics: Analytics, desk: Desk) -> None:
    desk.append("1", said("msg:1", "12:00:00"))
    analytics.run_once()
    desk.append("1", said("msg:2", "11:30:00"), said("msg:3", "10:30:00"))
    analytics.run_once()
    minutes = {key: row["messages"] for key, row in desk.counted()["minute"].items()}
    assert minutes == {"2026-01-01T12:00Z": 1, "2026-01-01T11:30Z": 1}


def test_a_session_that_was_deleted_does_not_keep_the_others_from_being_counted(
    analytics: Analytics, desk: Desk, client: Client, places: Places
) -> None:
    desk.append("1", said("msg:1", "10:00:00"))
    analytics.run_once()
    client.stream(places.sessions.replace("*", "1")).delete()
    desk.append("2", said("msg:1", "10:00:01"))
    analytics.run_once()
    assert desk.minute(MINUTE)["messages"] == 2


def test_what_comes_while_it_runs_is_counted_as_it_comes(
    analytics: Analytics, desk: Desk, client: Client, places: Places
) -> None:
    queries = analytics.start(every="0 seconds")
    with client.stream(places.analytics).materialise() as state:
        for messages in (1, 2):
            desk.append("1", said(f"msg:{messages}", "10:00:00"))
            state.wait_for(partial(shows, messages), TIMEOUT_SECS)
    for query in queries:
        query.stop()
    assert desk.counted()["funnel"]["2026-01-01"]["asked"] == 1


def test_facts_without_their_checkpoint_are_refused(spark: SparkSession, client: Client, places: Places) -> None:
    client.stream(places.facts).create(data={"kind": "seen"})
    with pytest.raises(CheckpointMissing, match=r"give its folder, or delete 'test-\d+/facts'"):
        Analytics(spark, places)
