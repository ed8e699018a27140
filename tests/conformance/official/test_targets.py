"""A server under test is ready when a test gets it, and gone when the test is over, however that ends."""

import os
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.conformance.targets import Target, environment_of, serving

TARGET = Target("http1", "memory")

HEALTHY = """
import http.server, os, pathlib, signal, sys
pathlib.Path("pid").write_text(str(os.getpid()))
if "stubborn" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def healthy(_transport: str, port: int) -> list[str]:
    return [sys.executable, "-c", HEALTHY, str(port)]


def stubborn(_transport: str, port: int) -> list[str]:
    return [sys.executable, "-c", HEALTHY, str(port), "stubborn"]


def burning(_transport: str, _port: int) -> list[str]:
    return [sys.executable, "-c", "import sys; sys.exit('the disk is on fire')"]


def assert_gone(folder: Path) -> None:
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), 0)


def test_a_server_answers_inside_and_is_gone_outside(tmp_path: Path) -> None:
    with (
        serving(TARGET, tmp_path, command=healthy) as base_url,
        urllib.request.urlopen(f"{base_url}/healthz") as answer,  # noqa: S310
    ):
        assert answer.status == 200
    assert_gone(tmp_path)


def test_a_server_is_gone_after_a_failed_test(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), serving(TARGET, tmp_path, command=healthy):
        raise ZeroDivisionError
    assert_gone(tmp_path)


def test_a_server_that_ignores_its_end_is_killed(tmp_path: Path) -> None:
    with serving(TARGET, tmp_path, command=stubborn, stop_timeout_secs=0.2):
        pass
    assert_gone(tmp_path)


def test_a_server_that_does_not_start_is_reported_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the disk is on fire"), serving(TARGET, tmp_path, command=burning):
        pass


def test_settings_of_the_surroundings_do_not_reach_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_LIMITS__MAX_STREAM_BYTES", "1")
    assert {name for name in environment_of(TARGET) if name.startswith("DS_")} == {
        "DS_SERVER__LONG_POLL_TIMEOUT_SECS",
        "DS_STORAGE__MODE",
        "DS_WEBHOOKS__ALLOW_LOOPBACK_HTTP",
    }
