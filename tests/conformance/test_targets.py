"""A server under test is ready when a test gets it, and gone when the test is over, however that ends."""

import os
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.conformance import targets
from tests.conformance.targets import Target, serving

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


def use_server(monkeypatch: pytest.MonkeyPatch, script: str, *arguments: str) -> None:
    def command(_transport: str, port: int) -> list[str]:
        return [sys.executable, "-c", script, str(port), *arguments]

    monkeypatch.setattr(targets, "_command", command)


def assert_gone(folder: Path) -> None:
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), 0)


def test_a_server_answers_inside_and_is_gone_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_server(monkeypatch, HEALTHY)
    with serving(TARGET, tmp_path) as base_url, urllib.request.urlopen(f"{base_url}/healthz") as answer:  # noqa: S310
        assert answer.status == 200
    assert_gone(tmp_path)


def test_a_server_is_gone_after_a_failed_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_server(monkeypatch, HEALTHY)
    with pytest.raises(ZeroDivisionError), serving(TARGET, tmp_path):
        raise ZeroDivisionError
    assert_gone(tmp_path)


def test_a_server_that_ignores_its_end_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_server(monkeypatch, HEALTHY, "stubborn")
    monkeypatch.setattr(targets, "STOP_TIMEOUT_SECS", 0.2)
    with serving(TARGET, tmp_path):
        pass
    assert_gone(tmp_path)


def test_a_server_that_does_not_start_is_reported_with_its_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_server(monkeypatch, "import sys; sys.exit('the disk is on fire')")
    with pytest.raises(RuntimeError, match="the disk is on fire"), serving(TARGET, tmp_path):
        pass


def test_settings_of_the_surroundings_do_not_reach_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_LIMITS__MAX_STREAM_BYTES", "1")
    assert {name for name in targets._environment(TARGET) if name.startswith("DS_")} == {
        "DS_SERVER__LONG_POLL_TIMEOUT_SECS",
        "DS_STORAGE__MODE",
        "DS_WEBHOOKS__ALLOW_LOOPBACK_HTTP",
    }
