"""Connections: what is sent with each request, and how many clients there are."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from everbrook.spark.connection import connect, disconnect
from everbrook.spark.options import ServerOptions
from tests.kit.http_server import AnsweringServer


class Door(BaseHTTPRequestHandler):
    """Lets those in who know the password."""

    password = "old"  # noqa: S105 - of this test
    seen: list[dict[str, str]] = []  # noqa: RUF012 - of all requests

    def do_HEAD(self) -> None:
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        allowed = self.headers.get("Authorization") == f"Bearer {self.password}"
        self.send_response(200 if allowed else 401)
        self.send_header("Stream-Next-Offset", "0000000000000000")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def door() -> Iterator[str]:
    server = AnsweringServer(("127.0.0.1", 0), Door)
    Door.seen.clear()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    disconnect()
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_token_in_a_file_is_read_again_when_it_is_not_taken_any_more(
    door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    connection = connect(ServerOptions(url=door, token_file=str(file)))
    connection.head("a")
    monkeypatch.setattr(Door, "password", "new")
    file.write_text("new\n")
    connection.head("a")
    assert [seen["authorization"] for seen in Door.seen] == ["Bearer old", "Bearer old", "Bearer new"]


def test_headers_go_with_every_request(door: str) -> None:
    connect(ServerOptions(url=door, token="old", headers=(("x-team", "blue"),))).head("a")  # noqa: S106
    assert Door.seen[0]["x-team"] == "blue"


def test_equal_options_share_their_connections(server: str) -> None:
    first, second = (connect(ServerOptions(url=server)) for _ in range(2))
    assert first.transport is second.transport
    assert connect(ServerOptions(url=server, token="x")).transport is not first.transport  # noqa: S106
