"""The driver killed with -9 while transactions run: in the end the stream is the table, and no message is twice."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psycopg
import pytest

from everbrook import Client
from everbrook.protocol import State, parse_message
from everbrook.protocol.errors import NotFound
from everbrook.spark.capture import status
from everbrook.spark.postgres.capture_options import default_slot
from tests.spark.drivers import driving

Sql = psycopg.Connection[Any]
_DRIVER = Path(__file__).with_name("capture_driver.py")
_CHANGES = 15_000
"""So many fit in a stream of the tests' server, however long the kills take."""
_STILL_SECS = 60.0


class Writer:
    """Transactions of several changes each, all of them different, of which some are rolled back."""

    def __init__(self, url: str) -> None:
        self.committed: list[int] = []
        """The numbers that were written to rows, each once."""
        self._url = url
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        chance, number = random.Random(8), 0
        with psycopg.connect(self._url) as connection:
            while not self._ended.is_set() and number < _CHANGES:
                written = []
                for _ in range(chance.choice((1, 3, 30, 60))):
                    number += 1
                    written += [number] if self._change(connection, chance, number) else []
                if chance.random() < 0.1:
                    connection.rollback()
                else:
                    connection.commit()
                    self.committed += written
                time.sleep(0.03)

    def _change(self, connection: Sql, chance: random.Random, number: int) -> bool:
        """Change a row, and tell whether it has the number now."""
        key = chance.randrange(400)
        match chance.randrange(4):
            case 0:
                connection.execute("DELETE FROM items WHERE id = %s", [key])
                return False
            case 1:
                values = [1000 + number, number, key]
                return connection.execute("UPDATE items SET id = %s, number = %s WHERE id = %s", values).rowcount > 0
            case _:
                connection.execute(
                    "INSERT INTO items VALUES (%s, %s, 'x') ON CONFLICT (id) DO UPDATE SET number = excluded.number",
                    [key, number],
                )
                return True


def tail(client: Client) -> str:
    try:
        return client.stream("items").head().offset
    except NotFound:
        return ""


def wait_for_news(client: Client, seconds: float, timeout_secs: float = 240.0) -> None:
    """Wait until the stream grows, and a while more."""
    before, deadline = tail(client), time.monotonic() + timeout_secs
    while tail(client) == before:
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.02)
    time.sleep(seconds)


def wait_until_confirmed(db: Sql, lsn: str, timeout_secs: float = 240.0) -> None:
    """Wait until Postgres may forget everything up to a position."""
    deadline = time.monotonic() + timeout_secs
    confirmed = "SELECT confirmed_flush_lsn >= %s FROM pg_replication_slots WHERE database = current_database()"
    while db.execute(confirmed, [lsn]).fetchone() != (True,):
        assert time.monotonic() < deadline, "the slot was not confirmed"
        time.sleep(0.02)


def state_of(client: Client) -> tuple[dict[str, int], list[int]]:
    """Materialise the stream, and give the numbers of all its messages, without those of the initial copy."""
    state, numbers = State(), []
    for message in client.stream("items").read():
        state.apply(parse_message(message))
        numbers += [message["value"]["number"]] if "value" in message else []
    return {key: value["number"] for key, value in state["items"].items()}, [n for n in numbers if n > 0]


def rows_of(db: Sql) -> dict[str, int]:
    return {str(key): number for key, number in db.execute("SELECT id, number FROM items").fetchall()}


def settled(client: Client, db: Sql, still_secs: float = _STILL_SECS) -> dict[str, int]:
    """Wait until the stream is the table, or nothing has come for a while. Give what it is then."""
    last, since = "", time.monotonic()
    while (found := state_of(client)[0]) != rows_of(db) and time.monotonic() - since < still_secs:
        time.sleep(0.3)
        if tail(client) != last:
            last, since = tail(client), time.monotonic()
    return found


@pytest.fixture
def table(db: Sql) -> Sql:
    db.execute("CREATE TABLE items (id int PRIMARY KEY, number int, note text)")
    db.execute("INSERT INTO items SELECT g, -g, 'x' FROM generate_series(1, 1000) g")
    return db


@pytest.fixture
def stream(client: Client) -> Iterator[Client]:
    """The server without the stream `items`, before and after."""
    with suppress(NotFound):
        client.stream("items").delete()
    yield client
    with suppress(NotFound):
        client.stream("items").delete()


def test_nothing_is_lost_or_repeated_by_a_driver_that_is_killed_again_and_again(
    table: Sql, stream: Client, database: str, server: str, tmp_path: Path
) -> None:
    chance = random.Random(1)
    with driving(_DRIVER, "loop", database, server, str(tmp_path / "run")):
        wait_for_news(stream, 0)
    with Writer(database) as writer:
        for _ in range(5):
            with driving(_DRIVER, "loop", database, server, str(tmp_path / "run")):
                wait_for_news(stream, chance.random())
    with driving(_DRIVER, "loop", database, server, str(tmp_path / "run")):
        assert settled(stream, table) == rows_of(table)
    assert state_of(stream)[1] == writer.committed


def test_the_test_above_sees_a_slot_that_is_confirmed_too_early(
    table: Sql, stream: Client, database: str, server: str, tmp_path: Path
) -> None:
    arguments = (database, server, str(tmp_path / "run"))
    with driving(_DRIVER, "loop", *arguments):
        wait_for_news(stream, 0)
        table.execute("UPDATE items SET number = -number WHERE id = 500")
        assert settled(stream, table) == rows_of(table)
    lost = table.execute("UPDATE items SET number = -number WHERE id <= 10 RETURNING pg_current_wal_insert_lsn()")
    with driving(_DRIVER, "hasty", *arguments):
        wait_until_confirmed(table, lost.fetchall()[-1][0])
    table.execute("UPDATE items SET number = -number WHERE id > 990")
    with driving(_DRIVER, "blind", *arguments):
        wait_for_news(stream, 0)
        assert settled(stream, table, still_secs=1.0) != rows_of(table)
    assert set(state_of(stream)[1]) == {500, *range(991, 1001)}


@pytest.mark.long
def test_nothing_is_lost_or_repeated_in_spark(
    table: Sql, stream: Client, database: str, server: str, tmp_path: Path
) -> None:
    with driving(_DRIVER, "spark", database, server, str(tmp_path / "run")):
        wait_for_news(stream, 0.1)
    with Writer(database) as writer, driving(_DRIVER, "spark", database, server, str(tmp_path / "run")):
        wait_for_news(stream, 1.0)
    with driving(_DRIVER, "spark", database, server, str(tmp_path / "run")):
        assert settled(stream, table, still_secs=240.0) == rows_of(table)
    assert state_of(stream)[1] == writer.committed
    assert status(database, default_slot(tmp_path / "run" / "copy")).wal_status == "reserved"
