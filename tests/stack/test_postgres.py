"""A Postgres of our own: it starts anywhere, keeps what it was given, and says what is wrong."""

import os
import socket
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import psycopg
import pytest

from everbrook.stack.errors import DataUnusable, NotReady, PortTaken
from everbrook.stack.postgres import Postgres
from tests.kit.ports import free_port


def test_it_is_fit_for_logical_replication(postgres: Postgres) -> None:
    with psycopg.connect(postgres.url()) as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)


def test_a_wrong_password_is_refused(postgres: Postgres) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.url().replace(":password@", ":guess@"))


def test_a_database_of_a_test_is_empty(database: str) -> None:
    with psycopg.connect(database) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        connection.execute("SELECT pg_create_logical_replication_slot('left_behind', 'pgoutput')")
    assert tables == (0,)


def test_it_never_runs_as_root(postgres: Postgres) -> None:
    assert 0 not in psutil.Process(postgres.process.pid).uids()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Postgres:
    """A cluster that each test starts and stops itself, in a folder that only we may enter."""
    return Postgres(tmp_path_factory.mktemp("cluster") / "data", free_port(), settings={"fsync": "off"})


def test_what_was_committed_is_there_after_a_kill(cluster: Postgres) -> None:
    cluster.start().wait_ready()
    with psycopg.connect(cluster.url()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
    cluster.process.kill()
    cluster.process.wait()
    cluster.start().wait_ready()
    with psycopg.connect(cluster.url()) as connection:
        assert connection.execute("SELECT * FROM kept").fetchall() == [(1,)]
    cluster.stop()


def test_a_stop_leaves_nothing_to_recover(cluster: Postgres) -> None:
    cluster.start().wait_ready()
    idle = psycopg.connect(cluster.url())
    cluster.stop()
    idle.close()
    assert cluster.log.read_text().rstrip().endswith("database system is shut down")


def test_a_changed_password_is_said(cluster: Postgres) -> None:
    cluster.start().wait_ready()
    cluster.stop()
    other = Postgres(cluster.folder, cluster.port, password="other").start()  # noqa: S106 - the wrong one
    with pytest.raises(DataUnusable, match="has another password"):
        other.wait_ready()
    other.stop()


def test_a_taken_port_is_said(cluster: Postgres) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"Postgres can't listen on 127.0.0.1:{port}: the port is taken"):
            Postgres(cluster.folder, port).start()


def test_data_of_a_version_that_is_not_here_is_said(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "PG_VERSION").write_text("9.6\n")
    with pytest.raises(DataUnusable, match=r"the data in .*/data is of Postgres 9, which is not here"):
        Postgres(tmp_path / "data", 1).start()


def test_a_folder_that_can_not_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataUnusable, match="/file can't be written to: Not a directory"):
        Postgres(tmp_path / "file" / "data", 1).start()


def test_a_first_start_that_was_cut_short_is_made_up_for(tmp_path: Path) -> None:
    (tmp_path / "data.unfinished" / "half").mkdir(parents=True)
    cluster = Postgres(tmp_path / "data", free_port(), settings={"fsync": "off"})
    cluster.start().wait_ready().stop()
    assert not os.path.exists(tmp_path / "data.unfinished")  # noqa: PTH110 - as a user would look


def test_one_that_ends_says_its_last_words(cluster: Postgres) -> None:
    broken = Postgres(cluster.folder, cluster.port, settings={"no_such_parameter": "1"}).start()
    with pytest.raises(NotReady, match='unrecognized configuration parameter "no_such_parameter"'):
        broken.wait_ready()
