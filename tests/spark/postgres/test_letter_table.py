"""The outbox of dead letters that go to a stream: each is appended once, whoever is killed in between."""

from collections.abc import Callable
from typing import Any

import pytest

from everbrook import Client
from everbrook.spark.options import ServerOptions
from everbrook.spark.postgres import letter_table
from everbrook.spark.postgres.database import Database, DatabaseOptions
from everbrook.spark.postgres.positions import Writer
from everbrook.spark.sinks.dead_letters import DeadLetterOptions
from tests.spark.postgres.conftest import MakeSink
from tests.spark.postgres.stream_rows import end_of, rows, writer

Sql = Callable[..., list[Any]]


class Killed(Exception):
    """The end of a process."""


class Dying(Database):
    """A connection of a process that is killed before it does something."""

    def __init__(self, options: DatabaseOptions, last: str) -> None:
        super().__init__(options)
        self._last = last

    def run(self, what: str, work: Any) -> Any:  # noqa: ANN401 - as in `Database`
        if what.startswith(self._last):
            raise Killed
        return super().run(what, work)


@pytest.mark.parametrize("last", ["reading", "emptying"])
def test_a_query_with_another_checkpoint_appends_what_a_killed_one_left(
    sink: MakeSink, sql: Sql, database: str, server: str, client: Client, prefix: str, last: str
) -> None:
    sql("CREATE TABLE log (n int)")
    options = DeadLetterOptions(stream=f"{prefix}dead", server=ServerOptions(url=server))
    log = sink("log", {"n": "n"}, dead_letters=f"stream:{options.stream}", server=options.server)
    first = rows({"n": 1}, {"n": "a"}, {"n": "b"})
    before, after = writer(7, "before", "kept", s="1a"), Writer("kept", "after", 0, {"s": "1a"})
    log.write(before, [first])
    connection, killed = Database(DatabaseOptions(database)), Dying(DatabaseOptions(database), last)
    with pytest.raises(Killed):
        letter_table.publish(killed, options, before)
    killed.close()
    for _ in range(2):
        letter_table.publish_left(connection, options, after)
        log.write(after, [first, rows({"n": "c"}, start=end_of(first))])
        letter_table.publish(connection, options, after)
    connection.close()
    found = [letter["payload"] for letter in client.stream(f"{prefix}dead").read().all()]
    assert found == ['{"n": "a"}', '{"n": "b"}', '{"n": "c"}']
    assert sql("SELECT count(*) FROM everbrook_dead_letters") == [0]
