"""`everbrook backup` of a server that means ill, or is none: nothing outside of DEST is touched, and it is told."""

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from struct import pack
from threading import Event, Thread

import pytest

from everbrook.cli.exits import INTERRUPTED
from everbrook.storage import BackupError, format_name
from tests.cli.backups import line, ran
from tests.kit.http_server import AnsweringServer
from tests.kit.server_thread import eventually

DATA = b"ssh-ed25519 not-yours"
PAUSE_SECS = 10
PATIENCE_SECS = 60


@dataclass
class Stranger:
    """What a server says that is none."""

    begun: dict[str, object] = field(
        default_factory=lambda: {"id": "x", "store": "acid", "taken_at_ms": 1790000000000, "lease_secs": 30}
    )
    names: list[str] = field(default_factory=lambda: ["keys"])
    state: int = 1
    data: bytes = DATA
    times: int = 1
    busy: bool = False
    dropped: int = 0
    """How many requests for the files get no response, but the end of their connection."""
    asked: Event = field(default_factory=Event)
    answering: Event = field(default_factory=Event)
    url: str = ""

    def answer(self, method: str, path: str, body: bytes) -> bytes:
        if method == "POST" and path == "/admin/backups":
            return json.dumps(self.begun).encode()
        if method == "POST":
            piece = pack("<BI32s", self.state, len(self.data), sha256(self.data).digest()) + self.data
            return piece * len(json.loads(body)) * self.times
        if "files" in path:
            return json.dumps([{"name": name, "size": len(DATA)} for name in self.names]).encode()
        return b'[""]'


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    told = Stranger()
    told.answering.set()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            answer = told.answer(self.command, self.path, body)
            if "files" in self.path and told.dropped:
                told.dropped -= 1
                self.close_connection = True
                return
            told.asked.set()
            assert told.answering.wait(PATIENCE_SECS)
            busy = told.busy and self.path.endswith("/pieces")
            self.send_response(503 if busy else 200)
            if busy:
                self.send_header("Retry-After", str(PAUSE_SECS))
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_DELETE = handle_any  # noqa: N815 - so they are called

        def log_message(self, *_args: object) -> None: ...

    with AnsweringServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        told.url = f"http://127.0.0.1:{server.server_port}"
        yield told
        server.shutdown()
        thread.join()


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "keys").write_text("old")
    (folder / "precious").write_text("mine")
    return folder


def untouched(victim: Path) -> bool:
    return {path.name: path.read_text() for path in victim.iterdir()} == {"keys": "old", "precious": "mine"}


@pytest.mark.parametrize("store", ["{}/victim", "../../../victim", "..", "", "acid/..", "memory"])
def test_a_store_that_is_none_is_refused_before_anything_is_made(
    stranger: Stranger, victim: Path, tmp_path: Path, store: str
) -> None:
    stranger.begun["store"] = store.format(tmp_path)
    refused = ran("backup", stranger.url, tmp_path / "dest")
    assert refused.returncode
    assert "the kind of the store must be acid or file" in refused.stderr
    assert untouched(victim)
    assert not (tmp_path / "dest" / ".partial").exists()


@pytest.mark.parametrize("name", ["{}/victim/keys", "../../../../victim/keys", "a/../../../../../victim/keys"])
def test_a_file_that_leads_out_of_the_store_is_not_written(
    stranger: Stranger, victim: Path, tmp_path: Path, name: str
) -> None:
    stranger.names = [name.format(tmp_path)]
    refused = ran("backup", stranger.url, tmp_path / "dest")
    assert (refused.returncode, "is not the name of a file in a store" in refused.stderr) == (1, True)
    assert untouched(victim)


def test_a_connection_that_broke_once_does_not_end_a_backup(stranger: Stranger, tmp_path: Path) -> None:
    stranger.dropped, stranger.names = 1, ["a/.."]
    refused = ran("backup", stranger.url, tmp_path / "dest")
    assert (stranger.dropped, "is not the name of a file in a store" in refused.stderr) == (0, True)


@pytest.mark.parametrize("change", [{"state": 7}, {"data": DATA * 2}, {"times": 2}], ids=str)
def test_pieces_that_can_not_be_are_told_and_no_traceback(
    stranger: Stranger, tmp_path: Path, change: dict[str, object]
) -> None:
    for name, value in change.items():
        setattr(stranger, name, value)
    refused = ran("backup", stranger.url, tmp_path / "dest")
    assert refused.returncode
    assert "the server" in refused.stderr


@pytest.mark.parametrize("change", [{"taken_at_ms": 10**18}, {"lease_secs": 0}, {"id": "../../x"}], ids=str)
def test_a_backup_that_can_not_have_begun_is_told(
    stranger: Stranger, tmp_path: Path, change: dict[str, object]
) -> None:
    stranger.begun.update(change)
    refused = ran("backup", stranger.url, tmp_path / "dest")
    assert refused.returncode
    assert "does not answer as a server that can be backed up" in refused.stderr


@pytest.mark.parametrize("moment", [10**18, -(10**18), 10**30])
def test_a_moment_that_no_calendar_has_names_no_backup(moment: int) -> None:
    with pytest.raises(BackupError, match="is out of range"):
        format_name(moment)


@pytest.mark.timing
def test_a_backup_of_a_server_that_has_no_time_can_be_interrupted(stranger: Stranger, tmp_path: Path) -> None:
    stranger.busy = True
    with subprocess.Popen(line("backup", stranger.url, tmp_path / "dest"), stderr=subprocess.PIPE) as process:
        assert eventually((tmp_path / "dest" / ".partial" / "data" / "acid").is_dir)
        process.send_signal(signal.SIGINT)
        assert process.wait(PAUSE_SECS) == INTERRUPTED


def test_a_second_interrupt_waits_for_no_answer(stranger: Stranger, tmp_path: Path) -> None:
    stranger.answering.clear()
    with subprocess.Popen(line("backup", stranger.url, tmp_path / "dest"), stderr=subprocess.PIPE) as process:

        def ended() -> bool:
            process.send_signal(signal.SIGINT)
            return process.poll() is not None

        assert stranger.asked.wait(PATIENCE_SECS)
        assert eventually(ended)
    stranger.answering.set()
    assert process.returncode == -signal.SIGINT
