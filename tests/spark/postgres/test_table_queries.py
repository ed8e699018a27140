"""Streams into tables on a real Spark: every message once, in small batches and large, over restarts and kills."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everbrook import Client
from everbrook.spark.options import InvalidOption, TableTuning
from everbrook.spark.sinks import query_plan as plans
from tests.kit.server_process import serving
from tests.spark.batches import append, forget_last_batch
from tests.spark.postgres.stream_rows import change, event
from tests.spark.postgres.table_queries import TIMEOUT_SECS, Job, until

Sql = Callable[..., list[Any]]
BY_DRIVER, BY_TASKS = TableTuning(large_bytes=10**9), TableTuning(large_bytes=-1)
LOG: dict[str, Any] = {"columns": {"n": "n"}, "table": "log"}
"""A table with no key at all: positions alone keep rows from being written twice."""


@pytest.fixture(params=["driver", "tasks"])
def way(request: pytest.FixtureRequest, job: Job) -> str:
    """Who writes: the driver or tasks, whatever the size of a batch."""
    job.tuning = BY_DRIVER if request.param == "driver" else BY_TASKS
    return str(request.param)


def fill(client: Client, prefix: str, *, start: int = 0, count: int = 20, streams: int = 3) -> None:
    for stream in range(streams):
        append(client, f"{prefix}{stream}", *({"n": n} for n in range(start, start + count)))


def test_events_become_rows_of_session_events(client: Client, job: Job, sql: Sql, way: str) -> None:
    append(client, f"{job.prefix}a", *(event(f"k{n}", n) for n in range(50)))
    job.run()
    append(client, f"{job.prefix}a", change("last", 50, operation="insert"))
    job.run()
    assert sql("SELECT event_key FROM session_events ORDER BY id") == [*(f"k{n}" for n in range(50)), "last"], way
    assert sql("SELECT count(DISTINCT ds_offset) FROM session_events") == [51]


@pytest.mark.parametrize("again", [1, 3])
def test_a_batch_that_is_run_again_is_there_once(client: Client, job: Job, sql: Sql, way: str, again: int) -> None:
    sql("CREATE TABLE log (n int)")
    fill(client, job.prefix)
    job.run({"maxRowsPerTrigger": "40"}, **LOG)
    for _ in range(again):
        forget_last_batch(job.checkpoint)
        job.tuning = BY_DRIVER if way == "tasks" else BY_TASKS  # by the others now
        job.run({"maxRowsPerTrigger": "40"}, **LOG)
    assert sql("SELECT n, count(*) FROM log GROUP BY n ORDER BY n") == [(n, 3) for n in range(20)]


def test_rows_whose_order_got_lost_are_put_in_order(client: Client, job: Job, sql: Sql, way: str) -> None:
    sql("CREATE TABLE log (n int, stream text, id serial)")
    fill(client, job.prefix)
    job.change = lambda frame: frame.repartition(3, "value")
    assert not plans.whole_streams(job.frame())
    job.run(columns={"n": "n", "stream": "@stream"}, table="log")
    found = sql("SELECT array_agg(n ORDER BY id) FROM log GROUP BY stream")
    assert found == [list(range(20))] * 3, way


def test_rows_as_the_source_gives_them_are_not_parted_anew(client: Client, job: Job) -> None:
    fill(client, job.prefix)
    assert plans.whole_streams(job.frame())
    assert plans.whole_streams(job.frame().filter("offset > '1'").select("stream", "offset", "next_offset", "value"))
    assert not plans.whole_streams(job.frame(minPartitions="4"))
    assert not plans.whole_streams(job.frame().selectExpr("upper(stream) AS stream", "offset", "next_offset", "value"))


def test_a_new_checkpoint_writes_every_row_of_a_stream_that_was_created_anew(
    client: Client, job: Job, sql: Sql, way: str
) -> None:
    sql("CREATE TABLE log (n int, id serial)")
    append(client, f"{job.prefix}a", {"n": 1}, {"n": 2})
    job.run(sink_id="kept", **LOG)
    client.stream(f"{job.prefix}a").delete()
    append(client, f"{job.prefix}a", {"n": 3}, {"n": 4}, {"n": 5})
    shutil.rmtree(job.checkpoint)
    for _ in range(2):
        job.run(sink_id="kept", **LOG)
        forget_last_batch(job.checkpoint)
    assert sql("SELECT n FROM log ORDER BY id") == [1, 2, 3, 4, 5], way


def test_a_new_checkpoint_appends_the_dead_letters_that_a_killed_query_left(
    client: Client, job: Job, sql: Sql, way: str
) -> None:
    sql("CREATE TABLE log (n int, id serial)")
    for message in ({"n": 1}, {"n": "no number"}):
        append(client, f"{job.prefix}a", message)
        job.run(sink_id="kept", **LOG)  # the table is the outbox of letters that are not in their stream yet
    shutil.rmtree(job.checkpoint)
    dead = f"{job.prefix.strip('/')}-dead"
    job.run(sink_id="kept", dead_letters=f"stream:{dead}", **LOG)
    assert [letter["payload"] for letter in client.stream(dead).read().all()] == ['{"n":"no number"}'], way
    assert sql("SELECT count(*) FROM everbrook_dead_letters") == [0]


def test_a_position_without_an_incarnation_is_compared_with_the_creation_of_the_stream(
    client: Client, job: Job, sql: Sql
) -> None:
    sql("CREATE TABLE log (n int, id serial)")
    append(client, f"{job.prefix}a", {"n": 1}, {"n": 2})
    append(client, f"{job.prefix}b", {"n": 10})
    job.run(sink_id="kept", **LOG)
    sql("UPDATE everbrook_positions SET incarnation = '', updated_at = now() - interval '2 hours'")
    sql("UPDATE everbrook_positions SET updated_at = now() + interval '2 hours' WHERE stream LIKE '%b'")
    client.stream(f"{job.prefix}a").delete()
    append(client, f"{job.prefix}a", {"n": 3}, {"n": 4}, {"n": 5})
    shutil.rmtree(job.checkpoint)
    job.run(sink_id="kept", **LOG)
    assert sql("SELECT n FROM log ORDER BY n") == [1, 2, 3, 4, 5, 10]
    assert sql("SELECT count(*) FROM everbrook_positions WHERE incarnation = ''") == [0]


def test_incarnations_are_known_of_streams_of_several_sources(client: Client, job: Job, sql: Sql) -> None:
    sql("CREATE TABLE log (n int, id serial)")
    append(client, f"{job.prefix}a", {"n": 1})
    append(client, f"other/{job.prefix}b", {"n": 2})
    other = job.frame(streamPrefix=f"other/{job.prefix}")
    job.change = lambda frame: frame.union(other)
    job.run(**LOG)
    heads = [client.stream(name).head().incarnation for name in (f"other/{job.prefix}b", f"{job.prefix}a")]
    assert sql("SELECT incarnation FROM everbrook_positions ORDER BY stream") == heads


def test_states_are_upserted(client: Client, job: Job, sql: Sql, way: str) -> None:
    append(client, f"{job.prefix}a", event("a", "1"), event("b", 2), event("a", "+", operation="append"))
    job.run(mode="state", table="states", create_table=True)
    append(client, f"{job.prefix}a", event("b", operation="remove"), event("a", "+", operation="append"))
    job.run(mode="state", table="states")
    assert sql("SELECT event_key, value FROM states") == [("a", "1++")], way


def test_dead_letters_go_to_a_stream_once(client: Client, job: Job, sql: Sql, way: str) -> None:
    sql("CREATE TABLE log (n int NOT NULL)")
    append(client, f"{job.prefix}a", {"n": 1}, {"n": "one"}, {"n": 2})
    append(client, f"{job.prefix}b", {"m": 1})
    dead = f"dead/{job.prefix}letters"
    for _ in range(2):
        job.run(dead_letters=f"stream:{dead}", **LOG)
        forget_last_batch(job.checkpoint)
    found = client.stream(dead).read().all()
    assert [(letter["stream"][-1], letter["payload"]) for letter in found] == [("a", '{"n":"one"}'), ("b", '{"m":1}')]
    assert sql("SELECT count(*) FROM everbrook_dead_letters") == [0], way


def test_a_dead_letter_that_is_too_large_for_its_stream_is_cut(
    client: Client, job: Job, sql: Sql, tmp_path: Path
) -> None:
    sql("CREATE TABLE log (n int NOT NULL)")
    append(client, f"{job.prefix}a", {"n": "x" * 3000}, {"n": "one"})
    with serving(tmp_path, DS_LIMITS__MAX_APPEND_BYTES="2000") as small:
        url = "http://{}:{}".format(*small.address)
        job.run(dead_letters="stream:dead", server_url=url, **LOG)
        with Client(url) as other:
            found = other.stream("dead").read().all()
    assert [letter.get("payload_bytes") for letter in found] == [3008, None]
    assert sql("SELECT count(*) FROM everbrook_dead_letters") == [0]


def test_dead_letters_that_were_appended_before_a_crash_are_not_appended_again(
    client: Client, job: Job, sql: Sql
) -> None:
    sql("CREATE TABLE log (n int NOT NULL)")
    append(client, f"{job.prefix}a", {"n": "one"})
    dead = f"dead/{job.prefix}letters"
    job.run(dead_letters=f"stream:{dead}", **LOG)
    forget_last_batch(job.checkpoint)
    # As if the process had died between the append and the deletion.
    sql(
        'INSERT INTO everbrook_dead_letters (sink, batch, table_name, stream, "offset", reason, payload)'
        " SELECT sink, batch, 'log', stream, '', 'again', '{}' FROM everbrook_positions"
    )
    job.run(dead_letters=f"stream:{dead}", **LOG)
    assert len(client.stream(dead).read().all()) == 1
    assert sql("SELECT count(*) FROM everbrook_dead_letters") == [0]


def test_the_connection_is_closed_when_the_query_ends(client: Client, job: Job, sql: Sql) -> None:
    append(client, f"{job.prefix}a", event("k"))
    query = job.start()
    until(lambda: bool(sql("SELECT count(*) FROM session_events")[0]), query)
    ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'everbrook' AND datname = current_database()"
    assert sql(ours) == [1]
    query.stop()
    until(lambda: sql(ours) == [0])


def test_a_lost_connection_and_a_deadlock_are_tried_again(client: Client, job: Job, sql: Sql) -> None:
    append(client, f"{job.prefix}a", event("k"))
    query = job.start(retry_secs=10.0)
    until(lambda: bool(sql("SELECT count(*) FROM session_events")[0]), query)
    sql("CREATE SEQUENCE tries")
    sql(
        "CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('tries') < 3 THEN "
        "RAISE EXCEPTION 'met' USING ERRCODE = '40P01'; END IF; RETURN NEW; END $$"
    )
    sql("CREATE TRIGGER meet BEFORE INSERT ON session_events FOR EACH ROW EXECUTE FUNCTION meet()")
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'everbrook'")
    append(client, f"{job.prefix}a", event("l"))
    until(lambda: sql("SELECT event_key FROM session_events ORDER BY id") == ["k", "l"], query)
    assert query.isActive
    query.stop()


def test_rows_without_what_the_source_tells_are_refused(job: Job, client: Client, sql: Sql) -> None:
    append(client, f"{job.prefix}a", event("k"))
    job.change = lambda frame: frame.select("stream", "value")
    with pytest.raises(InvalidOption, match="rows need the column 'offset'"):
        job.run()
    assert sql("SELECT count(*) FROM session_events") == [0]


# Kills

KILLED = """
import os, signal, sys
from everbrook.spark import session, write_postgres
from everbrook.spark.postgres.table_query import TableBatchWriter

server, prefix, url, checkpoint = sys.argv[1:]
write = TableBatchWriter.write

def killed(self, batch, batch_id):
    write(self, batch, batch_id)
    if batch_id == 1:
        os.kill(os.getpid(), signal.SIGKILL)

TableBatchWriter.write = killed
spark = session("killed", master="local[2]", config={"spark.ui.enabled": "false", "spark.driver.memory": "1g"})
options = {"url": server, "streamPrefix": prefix, "startingOffsets": "earliest", "maxRowsPerTrigger": "20"}
frame = spark.readStream.format("everbrook").options(**options).load()
query = write_postgres(frame, checkpoint, url=url, table="log", columns={"n": "n"}, trigger={"availableNow": True})
query.awaitTermination()
"""


def test_a_process_that_is_killed_behind_the_commit_writes_nothing_twice(
    client: Client, server: str, job: Job, sql: Sql
) -> None:
    sql("CREATE TABLE log (n int)")
    fill(client, job.prefix)
    arguments = [sys.executable, "-c", KILLED, server, job.prefix, job.url, str(job.checkpoint)]
    # No pipes: the Java that it leaves behind would hold them for a while.
    died = subprocess.run(arguments, timeout=2 * TIMEOUT_SECS, check=False, stdout=subprocess.DEVNULL)
    assert died.returncode == -signal.SIGKILL
    before = sql("SELECT count(*) FROM log")[0]
    assert 0 < before < 60
    _run_without_positions(job, sql)
    job.run({"maxRowsPerTrigger": "20"}, **LOG)
    assert sql("SELECT n, count(*) FROM log GROUP BY n ORDER BY n") == [(n, 3) for n in range(20)]


def _run_without_positions(job: Job, sql: Sql) -> None:
    """Run the same batch as if there were no positions: the control, which shows that the kill repeats a batch."""
    sql("CREATE TABLE control AS SELECT * FROM log")
    sql("CREATE TABLE kept AS SELECT * FROM everbrook_positions")
    sql("TRUNCATE everbrook_positions")
    job.copied("control").run({"maxRowsPerTrigger": "20"}, columns={"n": "n"}, table="control")
    twice = sql("SELECT count(*) FROM control")[0] - 60
    assert twice > 0, "the batch was not repeated, so that the test shows nothing"
    sql("TRUNCATE everbrook_positions")
    sql("INSERT INTO everbrook_positions SELECT * FROM kept")
