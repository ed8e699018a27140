"""`everbrook serve` on a disk that fails: it answers what waits, and ends for its supervisor to start it again."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kit.damage import hide_rows
from tests.kit.server_process import EVERBROOK, ServerProcess, environment, serving
from tests.kit.wire import render

ROOT = Path(__file__).parents[3]
PATH = "/v1/stream/s"
MODES = ["acid", "file-durable", "file-fast"]

pytestmark = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux sets limits of another process")


def break_disk(server: ServerProcess) -> None:
    """Have every later write to a file fail with EFBIG, which is no full disk."""
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(tmp_path: Path, mode: str) -> Iterator[ServerProcess]:
    """A server that has acknowledged `a`."""
    with serving(tmp_path, DS_STORAGE__MODE=mode) as running:
        with running.connect() as wire:
            wire.create(PATH, body=b"a")
        yield running


def test_a_server_whose_storage_fails_ends_with_a_code_of_its_own(server: ServerProcess) -> None:
    with server.connect() as wire:
        break_disk(server)
        # In one piece: the server may end before another one is sent.
        wire.send(3 * render("POST", PATH, b"b", host="localhost", content_type="text/plain"))
        assert [wire.read().refusal for _ in range(3)] == [(503, "unavailable")] * 3
    code, _, err = server.ended()
    assert code == 6
    assert "Traceback" in err
    assert err.splitlines()[-1] == ("everbrook: the storage failed, and the log has the reason: start the server again")


def test_readers_of_a_server_whose_storage_fails_get_a_proper_end(server: ServerProcess) -> None:
    with server.connect() as reader, server.connect() as wire:
        reader.ask("GET", f"{PATH}?offset=-1&live=sse")
        assert b"data:a" in reader.read_until(b"event: control")
        break_disk(server)
        assert wire.append(PATH, b"b").status == 503
        assert reader.read_until(b"0\r\n\r\n")
    assert server.ended()[0] == 6


def test_a_server_that_is_started_again_has_what_was_acknowledged(
    server: ServerProcess, tmp_path: Path, mode: str
) -> None:
    with server.connect() as wire:
        break_disk(server)
        assert wire.append(PATH, b"b").status == 503
    assert server.ended()[0] == 6
    with serving(tmp_path, DS_STORAGE__MODE=mode) as again, again.connect() as wire:
        found = wire.get(PATH).body
        assert found in {b"a", b"ab"}
        assert wire.append(PATH, b"c").status == 204
        assert wire.get(PATH).body == found + b"c"


def test_a_server_that_finds_hidden_streams_ends_and_does_not_start_again(
    server: ServerProcess, tmp_path: Path, mode: str
) -> None:
    def serve() -> subprocess.CompletedProcess[str]:
        command, settings = [EVERBROOK, "serve", "--port", "0"], environment(DS_STORAGE__MODE=mode)
        return subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)

    with server.connect() as wire:
        for number in range(10):
            wire.create(f"{PATH}-{number}", body=b"a")
    server.stop().ended()
    hide_rows(tmp_path / "data" / "streams" / ("acid" if mode == "acid" else "file"), b"names")
    ended, refused = serve(), serve()
    # The walk takes place beside the server. If it is done before the server has begun, the start is refused.
    assert ended.returncode == (6 if ended.stdout else 1)
    assert refused.returncode == 1
    for each in (ended, refused):
        assert "base/data.mdb is damaged: its rows are not in order" in each.stderr


UNCLOSABLE = """
from everbrook.server.serve import run
from tests.kit.server_thread import GatedStorage, configured

class Unclosable(GatedStorage):
    def __init__(self):
        super().__init__()
        self.failure = OSError("the disk is gone")
        self.gate.set()

    def close(self):
        raise OSError("it can't be closed")

run(configured(server__port=0), None, lambda _settings: Unclosable())
"""


def test_a_failed_storage_that_can_not_be_closed_is_still_a_failed_storage() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", UNCLOSABLE],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        server = ServerProcess(process)
        # A write of the server's own may have failed before this one.
        with suppress(ConnectionError), server.connect() as wire:
            wire.request("PUT", PATH)
        _, _, err = server.ended()
    assert "it can't be closed" in err
    assert err.splitlines()[-1].startswith("everbrook.server.serve.StorageFailed:")


def test_a_server_that_is_stopped_ends_with_zero(server: ServerProcess) -> None:
    assert server.stop().ended()[0] == 0
