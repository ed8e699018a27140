"""Reading both sides back when everything is quiet, and holding one against the other."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

import psycopg

from everbrook import Client
from soak.client import Client as PlainClient
from soak.ledger import PromiseBroken
from soak.server import HOST
from soak.sync.changes import Event, events_of
from soak.sync.controls import CHANGES, EVENTS, STATES, TABLES as ROWS
from soak.sync.producing import MARKER, Session
from soak.sync.scene import (
    ACCOUNTS,
    ACCOUNTS_STREAM,
    EVENTS_TABLE,
    JOURNAL,
    ORDERS,
    ROOM_PREFIX,
    ROOMS,
    STATE_TABLE,
    stream_of,
)
from soak.sync.verdict import Agreement, Entities, Told, compare_changes, compare_events, compare_states, fold
from soak.sync.writing import entry_of

Json = dict[str, Any]
Connection = psycopg.Connection[tuple[Any, ...]]
CAPTURED = {ACCOUNTS_STREAM: ACCOUNTS, **{f"{ROOM_PREFIX}{room}": ORDERS for room in ROOMS}}
"""The streams of changes, and the tables that they are of."""
_NOT_FOUND = 404


def judge(port: int, url: str, sessions: Sequence[Session]) -> dict[str, Agreement]:
    """Compare everything, by its direction."""
    with psycopg.connect(url) as database, Client(f"http://{HOST}:{port}") as client:
        changes, rows = _judge_captures(client, database)
        events, states = _judge_sinks(client, database, sessions)
        letters = database.execute("SELECT stream, reason FROM everbrook_dead_letters LIMIT 3").fetchall()
        if letters:
            raise PromiseBroken(f"there are dead letters, and nothing that does not fit was sent: {letters}")
    return {CHANGES: changes, ROWS: rows, EVENTS: events, STATES: states}


def _judge_captures(client: Client, database: Connection) -> tuple[Agreement, Agreement]:
    changes, rows = Agreement(), Agreement()
    expected = _expected(database)
    unknown = set(expected) - set(CAPTURED)
    if unknown:
        raise PromiseBroken(f"nothing says which table these streams are of: {sorted(unknown)}")
    for stream, table in CAPTURED.items():
        messages = [told.payload for told in messages_of(client, stream)]
        changes.add(compare_changes(stream, messages, expected[stream]))
        rows.add(compare_states(stream, fold(messages), _rows(database, table, stream)))
    return changes, rows


def _expected(database: Connection) -> Mapping[str, list[Event]]:
    """Give the messages of all that was committed, by stream."""
    expected: dict[str, list[Event]] = defaultdict(list)
    for columns in database.execute(f"SELECT * FROM {JOURNAL} ORDER BY change"):  # noqa: S608 - a name of ours
        for event in events_of(entry_of(columns)):
            expected[event.stream].append(event)
    return expected


def _rows(database: Connection, table: str, stream: str) -> Entities:
    """Give the rows of a table that a stream has to have."""
    found = database.execute(f"SELECT id, room, to_jsonb({table}) FROM {table}").fetchall()  # noqa: S608
    return {(table, key): value for key, room, value in found if stream_of(table, room) == stream}


def messages_of(client: Client, stream: str) -> Iterable[Told]:
    """Read a stream with the offset of each message."""
    for page in client.stream(stream).frames():
        for frame in page:
            yield Told(f"{frame.offset:016d}", json.loads(frame.payload))


def _judge_sinks(client: Client, database: Connection, sessions: Sequence[Session]) -> tuple[Agreement, Agreement]:
    events, states = Agreement(), Agreement()
    for session in sessions:
        messages = list(messages_of(client, session.name))
        if [told.payload["n"] for told in messages] != list(range(session.sent)):
            raise PromiseBroken(f"{session.name} is not as it was sent: {len(messages)} of {session.sent} messages")
        query = f"SELECT ds_offset, payload FROM {EVENTS_TABLE} WHERE stream_name = %s ORDER BY id"  # noqa: S608
        rows = [Told(*row) for row in database.execute(query, [session.name])]
        events.add(compare_events(session.name, rows, messages))
        query = f"SELECT event_type, event_key, value FROM {STATE_TABLE} WHERE stream_name = %s"  # noqa: S608
        found = {(row[0], row[1]): row[2] for row in database.execute(query, [session.name])}
        states.add(compare_states(session.name, found, fold(told.payload for told in messages)))
    return events, states


class Quiet:
    """Tells whether the last message or row of everything has come to the other side."""

    def __init__(self, port: int, url: str, sessions: Sequence[Session]) -> None:
        self._port, self._url, self._sessions = port, url, sessions

    def missing(self) -> list[str]:
        """Name what the last one has not come to."""
        with psycopg.connect(self._url) as database, closing(PlainClient(self._port)) as client:
            tables = [table for table in (EVENTS_TABLE, STATE_TABLE) if self._incomplete(database, table)]
            return tables + [stream for stream in CAPTURED if not self._ended(client, stream)]

    def _incomplete(self, database: Connection, table: str) -> bool:
        query = f"SELECT count(DISTINCT stream_name) FROM {table} WHERE event_type = %s"  # noqa: S608
        return database.execute(query, [MARKER]).fetchone() != (len(self._sessions),)

    def _ended(self, client: PlainClient, stream: str) -> bool:
        if client.request("HEAD", f"/v1/stream/{stream}").status == _NOT_FOUND:
            return False
        last = stream.removeprefix(ROOM_PREFIX) if stream.startswith(ROOM_PREFIX) else ROOMS[-1]
        pages = client.pages(f"/v1/stream/{stream}")
        return any(message["key"] == f"end-{last}" for page in pages for message in json.loads(page.body))
