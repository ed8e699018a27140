"""``everbrook restart``: a server is found by its store, restarts in place, and the command waits until it is ready."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.kit.server_process import ServerProcess, serving


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerProcess]:
    monkeypatch.setenv("DS_STORAGE__MODE", "file-fast")
    monkeypatch.setenv("DS_STORAGE__DATA_DIR", str(folder / "data"))
    with serving(folder, DS_STORAGE__MODE="file-fast", DS_STORAGE__DATA_DIR=str(folder / "data")) as server:
        yield server


def test_it_restarts_and_says_when_it_is_ready(run: Run, server: ServerProcess) -> None:
    ran = run("restart")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"process {server.process.pid} has restarted in place")


def test_a_next_image_that_would_not_start_is_exit_code_1(run: Run, server: ServerProcess, folder: Path) -> None:
    (folder / "config").mkdir()
    # For the server's next image alone: the command does not look at this.
    (folder / "config" / "local.toml").write_text('[tls]\ncert_path = "missing.pem"\nkey_path = "missing.pem"\n')
    ran = run("restart")
    assert (ran.code, "missing.pem" in ran.err) == (1, True)
    assert server.process.poll() is None


def test_an_image_that_fails_after_all_is_seen(run: Run, server: ServerProcess, folder: Path) -> None:
    """The check does not listen, so an address that is not this machine's is noticed when it is too late."""
    (folder / "config").mkdir()
    (folder / "config" / "local.toml").write_text('[server]\nhost = "192.0.2.1"\n')
    ran = run("restart")
    assert (ran.code, "cannot listen on 192.0.2.1" in ran.err) == (1, True)
    code, _, err = server.ended()
    assert (code, "cannot listen on 192.0.2.1" in err) == (1, True)


def test_without_a_server_there_is_nothing_to_restart(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_STORAGE__DATA_DIR", str(folder / "data"))
    ran = run("restart")
    assert (ran.code, "there is no store in" in ran.err) == (1, True)


def test_memory_is_not_restarted(run: Run) -> None:
    ran = run("restart", "--storage", "memory")
    assert (ran.code, "a restart would lose every stream" in ran.err) == (1, True)
