"""The heartbeat: odd ticks are rows, even ones events, each exactly once whatever is killed when."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from everbrook import Client
from everbrook.stack.heartbeat import Heartbeat
from everbrook.stack.schema import make_streams, make_tables

EVENTS = "session-events"


@pytest.fixture
def client(server: str, database: str) -> Iterator[Client]:
    make_tables(database)
    with Client(server) as connected:
        connected.stream(EVENTS).delete(missing_ok=True)
        make_streams(server)
        yield connected


def rows(database: str) -> list[str]:
    with psycopg.connect(database) as connection:
        return [title for (title,) in connection.execute("SELECT title FROM items ORDER BY id")]


def events(client: Client) -> list[int]:
    return [event["value"]["tick"] for event in client.stream(EVENTS).read()]


def test_odd_ticks_are_rows_and_even_ones_events(client: Client, database: str, tmp_path: Path) -> None:
    heartbeat = Heartbeat(client, database, tmp_path / "state")
    assert [heartbeat.beat() for _ in range(5)] == [1, 2, 3, 4, 5]
    assert (rows(database), events(client)) == (["heartbeat 1", "heartbeat 3", "heartbeat 5"], [2, 4])


def test_a_restart_goes_on_with_the_next_tick(client: Client, database: str, tmp_path: Path) -> None:
    for tick in (1, 2, 3, 4):
        assert Heartbeat(client, database, tmp_path / "state").beat() == tick


def test_a_tick_that_was_done_but_not_written_down_is_not_done_twice(
    client: Client, database: str, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    Heartbeat(client, database, state).beat()
    for _tick in range(4):
        before = state.read_bytes()
        Heartbeat(client, database, state).beat()
        state.write_bytes(before)  # as if it had been killed before it could say so
        Heartbeat(client, database, state).beat()
    assert (rows(database), events(client)) == (["heartbeat 1", "heartbeat 3", "heartbeat 5"], [2, 4])


def test_it_goes_on_when_its_stream_was_deleted_and_made_again(
    client: Client, database: str, server: str, tmp_path: Path
) -> None:
    heartbeat = Heartbeat(client, database, tmp_path / "state")
    for _ in range(4):
        heartbeat.beat()
    client.stream(EVENTS).delete()
    make_streams(server)
    for _ in range(4):
        heartbeat.beat()
    assert events(client) == [6, 8]
