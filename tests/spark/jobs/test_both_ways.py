"""Jobs between streams and tables of a real Postgres, until all that is there is done."""

import json
from pathlib import Path

import psycopg
import pytest

from everbrook import Client
from everbrook.spark.jobs.sinks import query_id
from tests.kit.postgres import database, postgres
from tests.spark.jobs.pipelines import command, read_if_there, running, until

__all__ = ["database", "postgres"]

FILE = """
[server]
url = "{server}"
[postgres]
url = "{database}"
[jobs.items]
source = {{ tables = ["items"] }}
sink = {{ stream = "{prefix}pg-items" }}
[jobs.events]
source = {{ stream = "{prefix}events" }}
sink = {{ table = "session_events" }}
trigger = "available-now"
[jobs.nonsense]
source = {{ stream = "{prefix}events" }}
sink = {{ table = "items", columns = {{ colour = "value.colour" }} }}
"""


@pytest.fixture
def file(tmp_path: Path, server: str, database: str, prefix: str, client: Client) -> Path:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE items (id serial PRIMARY KEY, title text NOT NULL)")
        connection.execute("INSERT INTO items (title) VALUES ('tea'), ('milk')")
    events = client.stream(f"{prefix}events")
    events.create()
    chat = {"type": "chat", "key": "m1", "value": 1, "headers": {"operation": "insert"}}
    events.extend([chat, {**chat, "key": "m2", "value": "no text of Postgres: \0"}])
    path = tmp_path / "jobs.toml"
    path.write_text(FILE.format(server=server, database=database, prefix=prefix))
    return path


def test_rows_and_events_go_both_ways_and_what_is_kept_of_it_can_be_dropped(
    file: Path, database: str, prefix: str, client: Client
) -> None:
    with running(file) as pipeline:
        assert "colour" in pipeline.wait_for_state("nonsense", "failed")["error"]
        assert pipeline.wait_for_state("events", "done")["rows"] == 2
        pipeline.wait_for_state("items", "running")
        rows = until(lambda: read_if_there(client, f"{prefix}pg-items"), 2)
        assert [row["value"]["title"] for row in rows] == ["tea", "milk"]
        assert pipeline.stop() == 0
    query = query_id(file.parent / "checkpoints" / "events")
    with psycopg.connect(database) as connection:
        events = connection.execute("SELECT event_key, event_type FROM session_events ORDER BY ds_offset").fetchall()
    assert events[0] == ("m1", "chat")
    for name in ("items", "events"):
        dropped = json.loads(command("reset", str(file), name, "--yes", "--json").stdout)["dropped"]
        assert dropped[:-1] == (
            ["slot everbrook_items", "publication everbrook_items"] if name == "items" else [f"positions of {query}"]
        )
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM everbrook_positions").fetchone() == (0,)


def test_rows_that_were_deleted_before_a_reset_are_in_no_state_after_it(
    file: Path, database: str, prefix: str, client: Client
) -> None:
    stream = client.stream(f"{prefix}pg-items")
    with running(file, "--job", "items") as pipeline:
        until(lambda: read_if_there(client, f"{prefix}pg-items"), 2)
        assert pipeline.stop() == 0
    command("reset", str(file), "items", "--yes")
    with psycopg.connect(database) as connection:
        connection.execute("DELETE FROM items WHERE title = 'tea'")
    with running(file, "--job", "items") as pipeline:
        until(lambda: list(stream.read()), 4)
        assert pipeline.stop() == 0
    with stream.materialise() as state:
        assert [row["title"] for row in state["items"].values()] == ["milk"]


def test_a_run_whose_jobs_end_has_an_exit_code_that_says_how(file: Path) -> None:
    with running(file, "--job", "events", "--job", "nonsense", "--json") as pipeline:
        assert pipeline.ended() == 1
        assert [(job["job"], job["state"]) for job in pipeline.printed()] == [
            ("events", "done"),
            ("nonsense", "failed"),
        ]
