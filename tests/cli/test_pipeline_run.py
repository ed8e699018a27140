"""What a running pipeline shows: JSON lines for programs, a table for people."""

import io
import json
import os
import pty
from pathlib import Path
from typing import BinaryIO

import pytest
from rich.console import Console

from everbrook.cli.commands.pipeline_run import own_stderr, showing, table_of
from everbrook.cli.terminal.output import format_bytes
from everbrook.spark.jobs.status import Board, JobState, State


def test_programs_get_a_json_object_for_each_change_of_state() -> None:
    board, out = Board([("copy", "a → b")]), io.StringIO()
    with showing(board, out) as shown:
        board.change("copy", state=State.RESTARTING, error="no answer")
        board.add("copy", rows=5)
        shown.note("ready", "1 of 1 jobs run", seconds=2)
    failed, ready = map(json.loads, out.getvalue().splitlines())
    assert (failed["level"], failed["message"]) == ("warning", "copy is restarting: no answer")
    assert (failed["job"], failed["state"], ready["event"], ready["seconds"]) == ("copy", "restarting", "ready", 2)


def test_people_get_a_table() -> None:
    state = JobState("copy", "a → b", State.RUNNING, batch=3, rows=50, lag_bytes=2500, error="[no] markup")
    out = io.StringIO()
    Console(file=out, width=120).print(table_of([state]))
    titles, row = out.getvalue().splitlines()
    assert titles.split()[:4] == ["job", "state", "what", "batch"]
    assert row.split("  ")[0] == "copy"
    assert "2.5 kB" in row
    assert "[no] markup" in row


def read_some(terminal: BinaryIO) -> bytes:
    try:
        return os.read(terminal.fileno(), 65536)
    except OSError:
        return b""  # how a terminal says that nobody writes any more


def test_a_terminal_gets_the_table() -> None:
    reading, writing = pty.openpty()
    board = Board([("copy", "a → b")])
    with os.fdopen(writing, "w") as out, showing(board, out):
        board.change("copy", state=State.RUNNING)
    with os.fdopen(reading, "rb") as shown:
        assert b"running" in b"".join(iter(lambda: read_some(shown), b""))


def test_what_others_write_to_standard_error_goes_to_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with own_stderr(tmp_path) as ours:
        os.write(2, b"of the JVM\n")
        ours.write("of ours\n")
    os.write(2, b"later\n")
    assert (tmp_path / "spark.log").read_text() == "of the JVM\n"
    assert capfd.readouterr().err == "of ours\nlater\n"


def test_bytes_are_written_for_people() -> None:
    assert [format_bytes(count) for count in (0, 999, 2500, 3_000_000)] == ["0 B", "999 B", "2.5 kB", "3.0 MB"]
