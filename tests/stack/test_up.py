"""`everbrook up` without its slow part: what starts and starts again, what is left behind, and what is refused."""

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from everbrook import Client
from tests.stack.stacks import Stack, acid, command, eventually, gone, port_of, ran, refused, up

LIGHT = ("--without", "pipeline", "--without", "envoy", "--interval", "0.2")
SERVER_ONLY = ("--without", "postgres", "--without", "pipeline", "--without", "heartbeat", "--without", "envoy")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which one test after the other starts a stack: to make a Postgres takes seconds."""
    return tmp_path_factory.mktemp("light") / "stack"


@pytest.fixture(scope="module")
def running_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("running") / "stack"


@pytest.fixture(scope="module")
def running(running_folder: Path) -> Iterator[Stack]:
    """A stack that runs, for those tests that leave it running."""
    with up(running_folder, *LIGHT, parts=3) as stack:
        stack.wait()
        yield stack


def ticks_of_rows(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT title FROM items ORDER BY id").fetchall()
    return [int(title.split()[1]) for (title,) in rows]


def ticks_of_events(url: str) -> list[int]:
    with Client(url) as client:
        return [event["value"]["tick"] for event in client.stream("session-events").read()]


def test_each_part_is_one_object_with_its_url(running: Stack) -> None:
    assert [report["part"] for report in running.reports[:3]] == ["server", "postgres", "heartbeat"]
    assert all(report.keys() == {"part", "url", "state"} for report in running.reports)


@pytest.mark.parametrize("part", ["server", "postgres", "heartbeat"])
def test_a_part_that_is_killed_is_started_again(running: Stack, part: str) -> None:
    running.child(part).kill()
    running.wait("restarting", part)
    running.wait("ready", part)
    before = len(ticks_of_rows(running.urls["postgres"]))
    assert eventually(lambda: len(ticks_of_rows(running.urls["postgres"])) > before)


def test_a_second_stack_in_the_same_folder_is_refused(running: Stack, running_folder: Path) -> None:
    code, said = refused(running_folder, *SERVER_ONLY)
    assert code == 1
    assert f"runs from {running_folder} already (process {running.process.pid})" in said


def test_a_signal_stops_the_parts_in_reverse_and_leaves_nothing(folder: Path) -> None:
    with up(folder, *LIGHT, parts=3) as stack:
        stack.wait()
        family = stack.family()
        code = stack.stop(signal.SIGINT)
    stopped = [report["part"] for report in stack.reports if report["state"] == "stopped"]
    assert (code, stopped) == (0, ["heartbeat", "postgres", "server"])
    assert gone(family, 1.0)


def test_a_stack_whose_reader_has_gone_stops_in_order(folder: Path) -> None:
    """It learns so when it has something to say."""
    with subprocess.Popen(
        command(folder, *LIGHT), env=acid(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        while b"heartbeat" not in started.stdout.readline():
            pass
        started.stdout.close()
        Stack.child_of(started.pid, "heartbeat").kill()
        assert started.wait(60) == 141
    assert (folder / "logs" / "postgres.log").read_text().rstrip().endswith("database system is shut down")


def test_a_second_start_goes_on_where_the_first_ended(folder: Path) -> None:
    rows: list[int] = []
    events: list[int] = []
    for _start in range(2):
        with up(folder, *LIGHT, parts=3) as stack:
            stack.wait()
            tick = len(ticks_of_events(stack.urls["server"]))
            eventually(lambda: len(ticks_of_events(stack.urls["server"])) > tick + 1)  # noqa: B023 - called at once
            rows, events = ticks_of_rows(stack.urls["postgres"]), ticks_of_events(stack.urls["server"])
    assert len(events) > 3
    assert rows == list(range(1, 2 * len(rows), 2))
    assert events == list(range(2, 2 * len(events) + 1, 2))


def test_nothing_outlives_a_stack_that_is_killed_and_the_next_one_starts(folder: Path) -> None:
    with up(folder, *LIGHT, parts=3) as stack:
        stack.wait()
        family, ports = stack.family(), [str(port_of(stack.urls[part])) for part in ("server", "postgres")]
        stack.process.kill()
    with up(folder, *LIGHT, "--port", ports[0], "--postgres-port", ports[1], parts=3) as stack:
        stack.wait()
        assert gone(family, 1.0)


@pytest.mark.parametrize("option, who", [("--port", "the server"), ("--postgres-port", "Postgres")])
def test_a_port_that_is_taken_is_refused_before_anything_starts(tmp_path: Path, option: str, who: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, said = refused(tmp_path / "stack", *LIGHT, option, str(port))
    assert (code, said) == (1, f"everbrook: {who} can't listen on 127.0.0.1:{port}: the port is taken\n")


def test_an_unknown_part_is_refused_with_those_there_are(tmp_path: Path) -> None:
    code, said = refused(tmp_path / "stack", "--with", "envoi")
    assert code == 2
    assert (
        "there is no part 'envoi': the parts are server, postgres, pipeline, heartbeat, envoy; did you mean envoy?"
        in said
    )


def test_a_part_that_lacks_another_is_refused(tmp_path: Path) -> None:
    code, said = refused(tmp_path / "stack", "--without", "postgres")
    assert (code, said) == (
        2,
        "everbrook: pipeline needs postgres: leave it in, or say with POSTGRES_URL where one is\n",
    )


def test_a_part_works_with_a_server_and_a_postgres_of_somebody_else(tmp_path: Path, server: str, database: str) -> None:
    others = ("--without", "server", "--without", "postgres", *LIGHT)
    with up(
        tmp_path / "stack",
        *others,
        parts=1,
        environ=acid(HTTP_PROXY="http://127.0.0.1:1", DS_SERVER_URL=server, POSTGRES_URL=database),
    ) as stack:
        stack.wait()
        assert eventually(lambda: ticks_of_rows(database))
        assert eventually(lambda: ticks_of_events(server))


def test_a_folder_that_can_not_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    code, said = refused(tmp_path / "file" / "stack", *SERVER_ONLY)
    assert (code, said) == (1, f"everbrook: {tmp_path}/file/stack can't be written to: Not a directory\n")


def test_down_stops_a_stack_and_waits_for_its_end(folder: Path) -> None:
    with up(folder, *SERVER_ONLY, parts=1) as stack:
        stack.wait()
        code, said, _ = ran("down", "--data-dir", str(folder), "--json")
        assert (code, stack.process.wait()) == (0, 0)
    assert json.loads(said) == {"data_dir": str(folder), "stopped": stack.process.pid}


def test_down_with_nothing_to_stop_says_so(tmp_path: Path) -> None:
    assert ran("down", "--data-dir", str(tmp_path)) == (0, "", f"everbrook: no stack runs from {tmp_path}\n")


def test_two_parts_on_one_port_are_refused_before_anything_starts(tmp_path: Path) -> None:
    code, _, said = ran("up", "--data-dir", str(tmp_path / "data"), "--port", "5001", "--postgres-port", "5001")
    assert (code, "both 5001" in said, (tmp_path / "data").exists()) == (2, True, False)
