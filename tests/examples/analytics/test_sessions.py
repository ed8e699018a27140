"""The generated sessions are the same for a seed, and have in them what analytics has to bear."""

from collections import Counter
from datetime import UTC, datetime

from everbrook import Client
from examples.analytics.sessions import generate, play

BEGIN = datetime(2026, 1, 1, 10, tzinfo=UTC)


def test_a_seed_gives_the_same_sessions_each_time() -> None:
    assert generate(4, 20, BEGIN) == generate(4, 20, BEGIN) != generate(5, 20, BEGIN)


def test_events_come_in_the_order_of_time() -> None:
    events = generate(4, 20, BEGIN)
    assert [each.when for each in events] == sorted(each.when for each in events)


def test_there_are_late_messages_edits_and_types_that_nobody_knows() -> None:
    events = generate(4, 40, BEGIN)
    messages = [each for each in events if each.event["type"] == "message"]
    late = [each for each in messages if each.event["value"].get("at", "9") < each.when.isoformat()[:16]]
    edited = [key for key, sets in Counter((each.session, each.event["key"]) for each in messages).items() if sets > 1]
    assert late
    assert edited
    assert "cursor" in {each.event["type"] for each in events}


def test_played_sessions_are_streams(client: Client) -> None:
    events = generate(1234, 2, BEGIN)
    assert len(list(play(client, events))) == len(events)
    first = [each.event for each in events if each.session == "sessions/1234-0"]
    assert client.stream("sessions/1234-0").read().all() == first
