"""Exit codes, the words beside them, and what is shown on a terminal only."""

import http.server
import os
import pty
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click
import pytest

from everbrook.cli.main import main
from tests.cli.conftest import Pipe, Run
from tests.kit.http_server import AnsweringServer
from tests.kit.server_process import EVERBROOK


@contextmanager
def answering(status: int, *, drop_appends: bool = False) -> Iterator[str]:
    """A server that answers everything alike, and may hang up on appends."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.send_header("Content-Type", "text/plain")
            self.send_header("Stream-Next-Offset", "0" * 16)
            self.end_headers()

        def hang_up(self) -> None:
            self.close_connection = True

        do_GET = do_HEAD = do_PUT = answer  # noqa: N815 - http.server's names
        do_POST = hang_up if drop_appends else answer  # noqa: N815

        def log_message(self, *_args: object) -> None:
            pass

    with AnsweringServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    "status, code, words",
    [
        (400, 1, "the server answered 400"),
        (401, 1, "set EVERBROOK_TOKEN, or pass --token"),
        (403, 1, "ask the operator of the server for this scope"),
        (404, 3, "there is no such stream"),
        (410, 3, "the server answered 410"),
        (503, 4, "the server answered 503"),
    ],
)
def test_a_refusal_is_an_exit_code_and_one_line(run: Run, status: int, code: int, words: str) -> None:
    with answering(status) as url:
        ran = run("head", "s", "--url", url)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert words in ran.err


def test_an_append_that_may_have_happened_is_exit_code_5(run: Run) -> None:
    with answering(200, drop_appends=True) as url:
        ran = run("append", "s", "x", "--url", url)
    assert (ran.code, ran.out, ran.err.count("\n")) == (5, "", 1)
    assert "read the tail of the stream before you append again" in ran.err


def test_what_is_no_stream_is_exit_code_1(run: Run) -> None:
    with answering(200) as url:
        ran = run("ls", "--url", url)
    assert (ran.code, ran.err.count("\n")) == (1, 1)


def test_a_token_is_sent(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            seen.append(self.headers["Authorization"])
            self.send_error(404)

        def log_message(self, *_args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("EVERBROOK_TOKEN", "from-environment")
        run("head", "s", "--url", url)
        run("head", "s", "--url", url, "--token", "from-option")
        server.shutdown()
    assert seen == ["Bearer from-environment", "Bearer from-option"]


@pytest.mark.parametrize("token", ["é", "a\nb", "\ufefftoken"])
def test_a_token_that_is_none_is_exit_code_2(run: Run, token: str) -> None:
    ran = run("head", "s", "--token", token)
    assert (ran.code, ran.err.count("\n"), "printable ASCII" in ran.err) == (2, 1, True)


def test_a_value_that_the_client_refuses_is_exit_code_2(run: Run, url: str) -> None:
    ran = run("append", "s", "1", "--producer", "é")
    run("create", "s")
    assert (ran.code, run("append", "s", "1", "--producer", "é").code) == (3, 2)


def test_a_bug_is_a_traceback_and_not_a_line() -> None:
    with pytest.raises(ZeroDivisionError):
        main([], click.Command("buggy", callback=lambda: 1 / 0))


def on_terminal(*line: str, **variables: str) -> str:
    """What a person sees on standard error, while standard output goes elsewhere."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **variables}
    subprocess.run(
        [EVERBROOK, *line], stdout=subprocess.DEVNULL, stderr=theirs, env=environment, check=False, timeout=60
    )
    os.close(theirs)
    try:
        return os.read(ours, 65536).decode()
    finally:
        os.close(ours)


def test_a_complaint_is_red_on_a_terminal(url: str) -> None:
    assert on_terminal("head", "nothing").startswith("\x1b[31meverbrook:\x1b[0m ")


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_complaint_is_plain_where_colours_are_not_wanted(url: str, variables: dict[str, str]) -> None:
    assert on_terminal("head", "nothing", **variables).startswith("everbrook: ")


def test_progress_is_shown_on_a_terminal(run: Run, url: str) -> None:
    run("create", "s")
    run("append", "s", "1")
    assert "exporting" in on_terminal("export", "s")


def test_elsewhere_there_is_neither_progress_nor_colour(run: Run, pipe: Pipe) -> None:
    run("create", "s")
    assert pipe("export", "s").stderr == b""
    assert b"\x1b" not in pipe("head", "nothing").stderr


@pytest.mark.parametrize(
    "script, code, words",
    [
        ("append s <&-", 2, "standard input is closed"),
        ("read s >&-", 1, "standard output is closed"),
        ("head s >&-", 1, "standard output is closed"),
        ("read s > /dev/full", 1, "No space left on device"),
        ("ls > /dev/full", 1, "No space left on device"),
        ("export s -o /dev/full", 1, "No space left on device"),
    ],
)
def test_standard_streams_that_can_not_be_used_are_one_line(
    run: Run, url: str, script: str, code: int, words: str
) -> None:
    run("create", "s")
    run("append", "s", "1")
    ran = subprocess.run(
        ["bash", "-c", f"{EVERBROOK} {script}"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stderr.count("\n")) == (code, 1)
    assert words in ran.stderr
