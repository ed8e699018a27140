"""A restart in place of a server that speaks TLS: what is encrypted ends properly, and nobody is refused."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from everbrook.server.restart import read_report
from tests.kit.certificates import Authority, Pair, connected
from tests.kit.server_process import PATIENCE_SECS, ServerProcess, serving
from tests.server.process.restarts import awaited

ASK = b"GET /healthz HTTP/1.1\r\nHost: server\r\n\r\n"


@pytest.fixture
def server(tmp_path: Path, pair: Pair) -> Iterator[ServerProcess]:
    settings = {"DS_STORAGE__MODE": "file-fast", "DS_STORAGE__DATA_DIR": str(tmp_path / "data")}
    with serving(tmp_path, **settings, DS_TLS__CERT_PATH=str(pair.cert), DS_TLS__KEY_PATH=str(pair.key)) as server:
        yield server


def test_an_idle_connection_is_told_of_the_end_and_a_new_one_waits(
    server: ServerProcess, authority: Authority, tmp_path: Path
) -> None:
    report = tmp_path / "data" / "restart.json"
    context = authority.client_context()
    with connected(server.address, context) as wire:
        wire.settimeout(PATIENCE_SECS)
        wire.sendall(ASK)
        assert wire.recv(9000).startswith(b"HTTP/1.1 200")
        server.stop(signal.SIGUSR2)
        # An end that is not announced raises an SSLError here.
        assert wire.recv(9000) == b""
    with connected(server.address, context) as wire:
        wire.settimeout(PATIENCE_SECS)
        wire.sendall(ASK)
        assert wire.recv(9000).startswith(b"HTTP/1.1 200")
    assert awaited(lambda: read_report(report).phase == "ready")
