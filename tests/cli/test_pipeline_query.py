"""``everbrook pipeline query``: SQL over the tables of the lake, with DuckDB."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.kit.lake_rows import rows_of, table_at, write

JOBS = """
[jobs.session-events]
source = { stream = "events" }
sink = { lake = "lake/events" }
[jobs.folder]
source = { stream = "others" }
sink = { lake = "lake/others" }
[jobs.later]
source = { stream = "later" }
sink = { lake = "lake/later" }
"""


@pytest.fixture
def file(folder: Path) -> str:
    (folder / "jobs.toml").write_text(JOBS)
    write(table_at(folder / "lake" / "events"), 0, rows_of({"n": 1, "who": "ada"}, {"n": 20, "who": "bob"}))
    table = table_at(folder / "lake" / "others")
    write(table, 0, rows_of({"n": 3}))
    write(table, 1, rows_of({"n": 4, "late": True}, first=1))
    return "jobs.toml"


def test_a_table_is_called_like_its_job_and_like_its_folder(run: Run, file: str) -> None:
    ran = run("pipeline", "query", file, 'SELECT n, who FROM "session-events" ORDER BY n DESC')
    assert ran.out == " n  who\n20  bob\n 1  ada\n"
    assert run("pipeline", "query", file, "SELECT sum(n) AS n FROM events", "--json").out == '{"n":21}\n'


def test_a_table_has_the_columns_of_all_files(run: Run, file: str) -> None:
    ran = run("pipeline", "query", file, "SELECT n, late, stream_group FROM folder ORDER BY n", "--csv")
    assert ran.out == "n,late,stream_group\n3,,orders\n4,true,orders\n"


def test_tables_can_be_joined_and_times_are_printed(run: Run, file: str) -> None:
    sql = "SELECT date, count(*) AS n FROM (SELECT date FROM events UNION ALL SELECT date FROM others) GROUP BY 1"
    assert json.loads(run("pipeline", "query", file, sql, "--json").out) == {"date": "2026-01-01", "n": 4}


def test_a_query_that_is_wrong_is_told_with_the_tables_there_are(run: Run, file: str) -> None:
    ran = run("pipeline", "query", file, "SELECT * FROM later")
    assert ran.code == 1
    assert ran.err.rstrip().endswith('; the tables are "session-events", folder, events, others')


def test_a_file_without_tables_is_exit_code_3(run: Run, folder: Path) -> None:
    (folder / "jobs.toml").write_text('[jobs.copy]\nsource = { stream = "a" }\nsink = { stream = "b" }')
    ran = run("pipeline", "query", "jobs.toml", "SELECT 1")
    assert (ran.code, ran.err.startswith("everbrook: jobs.toml has no table")) == (3, True)


def test_two_ways_to_print_are_one_too_many(run: Run, file: str) -> None:
    assert run("pipeline", "query", file, "SELECT 1", "--json", "--csv").code == 2


def test_a_folder_whose_name_is_that_of_another_job_is_known_by_its_job(run: Run, folder: Path, file: str) -> None:
    (folder / "jobs.toml").write_text(JOBS.replace("jobs.folder", "jobs.EVENTS"))
    assert run("pipeline", "query", file, "SELECT count(*) AS n FROM events WHERE n > 2", "--json").out == '{"n":2}\n'


def test_columns_of_the_same_name_are_told_apart(run: Run, file: str) -> None:
    assert run("pipeline", "query", file, "SELECT 1 AS a, 2 AS a", "--json").out == '{"a":1,"a_1":2}\n'
    sql = "SELECT 1 AS a, 2 AS a, 3 AS a_1"
    assert run("pipeline", "query", file, sql, "--json").out == '{"a":1,"a_2":2,"a_1":3}\n'


def test_values_do_not_move_the_cursor(run: Run, file: str) -> None:
    assert run("pipeline", "query", file, "SELECT chr(27) || '[2J' || chr(10) AS a").out == "a\n\\x1b[2J\\n\n"


def test_a_query_that_asks_for_nothing_is_told(run: Run, file: str) -> None:
    ran = run("pipeline", "query", file, ";")
    assert (ran.code, ran.err.startswith("everbrook: there is no query in ';'")) == (1, True)
