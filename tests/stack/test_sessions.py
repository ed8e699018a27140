"""Durable sessions on the whole stack: five things that a session does, and three that its database sees.

The rows and events of the heartbeat are among them, so each test looks for what it has written itself.
"""

import threading
from collections.abc import Iterator
from itertools import count

import httpx2
import psycopg
import pytest

from everbrook import Client
from tests.stack.stacks import Stack, eventually

JSON = {"Content-Type": "application/json"}
_numbers = count()


@pytest.fixture
def http(stack: Stack) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=f"{stack.urls['server']}/v1/stream/", timeout=30) as client:
        yield client


@pytest.fixture
def session(http: httpx2.Client) -> str:
    """The name of a new session."""
    name = f"session-{next(_numbers)}"
    http.put(name, headers=JSON).raise_for_status()
    return name


def message(key: str, text: str) -> dict[str, object]:
    return {"key": key, "type": "message", "operation": "set", "value": {"text": text}}


def append(http: httpx2.Client, name: str, event: object, producer: str = "", seq: int = 0) -> httpx2.Response:
    tag = {"Producer-Id": producer, "Producer-Epoch": "0", "Producer-Seq": str(seq)} if producer else {}
    return http.post(name, headers=JSON | tag, json=[event])


def test_lifecycle(http: httpx2.Client, session: str) -> None:
    """Create a session, write who is there, read it back."""
    presence = {"key": "user:alice", "type": "presence", "operation": "set", "value": {"status": "online"}}
    assert append(http, session, presence).status_code == 204
    assert http.get(session, params={"offset": "-1"}).json() == [presence]


def test_multi_producer_chat(http: httpx2.Client, session: str) -> None:
    """A person and a model write under names of their own; everybody sees one order, that of arrival."""
    said = []
    for turn in range(3):
        for producer in ("alice-tab-1", "ai-assistant"):
            said.append(message(f"msg:{producer}:{turn}", f"turn {turn}"))
            assert append(http, session, said[-1], producer, turn).status_code == 200
    assert http.get(session, params={"offset": "-1"}).json() == said


def test_live_subscription(stack: Stack, http: httpx2.Client, session: str) -> None:
    """Whoever subscribes gets what is written afterwards, at once."""
    received: list[object] = []

    def subscribe() -> None:
        with Client(stack.urls["server"]) as client:
            received.append(next(iter(client.stream(session).follow("now"))))

    subscriber = threading.Thread(target=subscribe)
    subscriber.start()
    while subscriber.is_alive():
        append(http, session, message("msg:1", "are you there?"))
        subscriber.join(0.2)
    assert received == [message("msg:1", "are you there?")]


def test_recovery(http: httpx2.Client, session: str) -> None:
    """Whoever kept an offset gets exactly what came after it."""
    append(http, session, message("msg:1", "before"))
    offset = http.get(session, params={"offset": "-1"}).headers["Stream-Next-Offset"]
    append(http, session, message("msg:2", "after"))
    assert http.get(session, params={"offset": offset}).json() == [message("msg:2", "after")]


def test_idempotency(http: httpx2.Client, session: str) -> None:
    """A retry is recognised (204), the next number is new (200), and each event is there once."""
    first, second = message("msg:1", "once"), message("msg:2", "next")
    answers = [append(http, session, event, "alice", seq) for event, seq in ((first, 0), (first, 0), (second, 1))]
    assert [answer.status_code for answer in answers] == [200, 204, 200]
    assert http.get(session, params={"offset": "-1"}).json() == [first, second]


def insert(stack: Stack, title: str) -> int:
    with psycopg.connect(stack.urls["postgres"]) as connection:
        row = connection.execute("INSERT INTO items (title, body) VALUES (%s, 'x') RETURNING id", [title]).fetchone()
    assert row is not None
    return int(row[0])


def items(stack: Stack, title: str) -> list[dict[str, object]]:
    """Give the changes of the items with a title, as the stream has them."""
    with Client(stack.urls["server"]) as client:
        changes = client.stream("pg-items").read().all()
    return [change for change in changes if (change.get("value") or {}).get("title") == title]


def rows(stack: Stack, key: str) -> list[tuple[object, ...]]:
    with psycopg.connect(stack.urls["postgres"]) as connection:
        return connection.execute(
            "SELECT stream_name, event_type, operation, payload FROM session_events WHERE event_key = %s", [key]
        ).fetchall()


def test_postgres_to_stream(stack: Stack) -> None:
    """A row that is inserted becomes a message of the stream."""
    number = insert(stack, "from a table")
    (change,) = eventually(lambda: items(stack, "from a table"))
    assert (change["key"], change["headers"]["operation"]) == (str(number), "insert")


def test_stream_to_postgres(stack: Stack, http: httpx2.Client) -> None:
    """An event that is appended becomes a row of the table."""
    event = message("msg:from-a-stream", "into a table")
    append(http, "session-events", event).raise_for_status()
    assert eventually(lambda: rows(stack, "msg:from-a-stream")) == [("session-events", "message", "set", event)]


def test_round_trip(stack: Stack, http: httpx2.Client) -> None:
    """A row goes to the stream, a reader of it answers with an event, and the answer is in the database: once each."""
    insert(stack, "there and back")
    (change,) = eventually(lambda: items(stack, "there and back"))
    append(http, "session-events", message(f"reply:{change['key']}", "seen"), "replier").raise_for_status()
    answers = eventually(lambda: rows(stack, f"reply:{change['key']}"))
    assert (len(answers), len(items(stack, "there and back"))) == (1, 1)
