"""A restart in place: the same process, no refused connection, no failed request, and whoever waits is answered."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from everbrook.server.restart import (
    OVER,
    VARIABLE,
    Handover,
    Report,
    RestartFailed,
    inherit,
    prove,
    read_report,
    write_handover,
)
from everbrook.server.tuning import RestartTuning
from everbrook.settings import StorageMode
from tests.kit.server_process import EVERBROOK, PATIENCE_SECS, ServerProcess, environment, serving
from tests.kit.server_thread import configured
from tests.server.process.restarts import awaited

PATH = "/v1/stream/a"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the shared server has its data."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def process(folder: Path) -> Iterator[ServerProcess]:
    """A server whose grace period is longer than any test: no slow client is dropped by chance."""
    settings = {"DS_STORAGE__MODE": "file-fast", "DS_STORAGE__DATA_DIR": "data"}
    with serving(folder, "--shutdown-grace", "600", **settings) as server:
        yield server


@pytest.fixture
def server(process: ServerProcess, folder: Path) -> Iterator[ServerProcess]:
    """The shared server, for tests that neither stop nor configure it. A test ends when its restart is over."""
    yield process
    assert awaited(lambda: report(folder).phase in OVER)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server of the test's own."""
    with serving(tmp_path, DS_STORAGE__MODE="file-fast", DS_STORAGE__DATA_DIR="data") as server:
        yield server


def report(folder: Path) -> Report:
    return read_report(folder / "data" / "restart.json")


def restart(server: ServerProcess, folder: Path) -> Report:
    """Ask for a restart, and wait until that is over."""
    attempt = report(folder).attempt
    server.stop(signal.SIGUSR2)
    assert awaited(lambda: report(folder).attempt > attempt and report(folder).phase in OVER)
    return report(folder)


def test_a_kept_alive_connection_goes_on_and_sees_what_it_wrote(server: ServerProcess, folder: Path, path: str) -> None:
    with server.connect() as wire:
        wire.create(path)
        wire.append(path, b"before ")
        assert restart(server, folder).phase == "ready"
        assert wire.append(path, b"after").status == 204
        assert wire.get(path).body == b"before after"
    assert server.process.poll() is None


def test_requests_and_connections_that_come_meanwhile_wait_and_are_answered(
    server: ServerProcess, folder: Path, path: str
) -> None:
    with server.connect() as wire:
        wire.create(path)
        server.stop(signal.SIGUSR2)
        assert awaited(lambda: report(folder).phase == "starting")
        with server.connect() as late:
            late.ask("GET", "/healthz")
            assert wire.append(path, b"a").status == 204
            assert late.read().status == 200


def test_a_follower_gets_its_end_and_a_long_poll_its_answer_on_connections_that_go_on(
    server: ServerProcess, folder: Path, path: str
) -> None:
    with server.connect() as reader, server.connect() as poller:
        reader.create(path)
        follower = reader.follow(f"{path}?offset=-1&live=sse")
        follower.control()
        poller.ask("GET", f"{path}?offset=now&live=long-poll")
        assert poller.nothing_for(0.1)
        server.stop(signal.SIGUSR2)
        assert follower.events() == []
        assert poller.read().status == 204
        assert [wire.get("/healthz").status for wire in (reader, poller)] == [200, 200]


def test_a_request_that_has_come_in_part_is_waited_for_while_others_are_served(
    server: ServerProcess, folder: Path, path: str
) -> None:
    with server.connect() as sender, server.connect() as other:
        other.create(path)
        sender.ask("POST", path, content_type="text/plain", content_length="5").send(b"he")
        assert sender.nothing_for(0.1)
        server.stop(signal.SIGUSR2)
        assert awaited(lambda: report(folder).phase == "leaving")
        time.sleep(0.2)
        assert other.get("/healthz").status == 200
        assert report(folder).phase == "leaving"
        assert sender.send(b"llo").read().status == 204
        assert other.get(path).body == b"hello"


def test_whoever_is_slower_than_the_grace_is_cut_off(tmp_path: Path) -> None:
    settings = {"DS_STORAGE__MODE": "file-fast", "DS_STORAGE__DATA_DIR": str(tmp_path / "data")}
    with serving(tmp_path, "--shutdown-grace", "0.3", **settings) as server, server.connect() as sender:
        sender.ask("POST", PATH, content_type="text/plain", content_length="5").send(b"he")
        assert sender.nothing_for(0.1)
        assert restart(server, tmp_path).phase == "ready"
        assert sender.ended()


def test_who_begins_to_be_slow_meanwhile_does_not_make_everybody_wait(
    server: ServerProcess, folder: Path, path: str
) -> None:
    with server.connect() as first, server.connect() as second:
        first.ask("POST", path, content_type="text/plain", content_length="5").send(b"he")
        assert first.nothing_for(0.1)
        server.stop(signal.SIGUSR2)
        assert awaited(lambda: report(folder).phase == "leaving")
        second.ask("POST", path, content_type="text/plain", content_length="5").send(b"wo")
        assert second.nothing_for(0.1)
        first.send(b"llo")
        assert awaited(lambda: report(folder).phase == "ready")


def test_pipelined_requests_are_all_answered_in_order(server: ServerProcess, folder: Path, path: str) -> None:
    with server.connect() as wire:
        wire.create(path)
        wire.ask("GET", f"{path}?offset=now&live=long-poll")
        for _ in range(20):
            wire.ask("POST", path, content_type="text/plain", content_length="1").send(b"a")
        server.stop(signal.SIGUSR2)
        assert [wire.read().status for _ in range(21)] == [204] * 21
        assert wire.get(path).body == b"a" * 20


def test_a_next_image_that_would_not_start_is_told_and_this_one_goes_on(own: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "local.toml").write_text("[server]\nprot = 1\n")
    with own.connect() as wire:
        told = restart(own, tmp_path)
        assert (told.phase, "would not start" in told.message, "prot" in told.message) == ("failed", True, True)
        assert wire.get("/healthz").status == 200
    assert "no restart" in own.stop().ended()[2]


def test_a_check_that_takes_too_long_is_ended_and_fails(tmp_path: Path) -> None:
    settings = configured(storage__mode=StorageMode.FILE_FAST)
    command = ["sh", "-c", f"echo $$ > '{tmp_path}/process'; exec sleep 600"]
    with pytest.raises(RestartFailed, match="took longer than 1 s"):
        asyncio.run(prove(settings, command, RestartTuning(check_secs=1.0)))
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "process").read_text()), 0)


def test_memory_is_not_thrown_away(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.connect() as wire:
        wire.create(PATH)
        server.stop(signal.SIGUSR2)
        time.sleep(0.3)
        assert wire.get(PATH).status == 200
        assert "a restart would lose every stream" in server.stop().ended()[2]


def test_a_stop_that_comes_during_a_restart_is_not_lost(own: ServerProcess, tmp_path: Path) -> None:
    with own.connect() as wire:
        wire.create(PATH)
        own.stop(signal.SIGUSR2)
        assert awaited(lambda: report(tmp_path).phase == "starting")
        own.stop(signal.SIGTERM)
        # By the next image, or, in the very moment in which there is none, by the signal itself.
        assert own.ended()[0] in {0, -signal.SIGTERM}


STOPPED_AT_ITS_START = """
import os, signal
if "EVERBROOK_HANDOVER" in os.environ:
    os.kill(os.getpid(), signal.SIGTERM)
"""


def test_a_stop_that_comes_before_the_next_image_has_handlers_is_kept_for_it(tmp_path: Path) -> None:
    """Python runs `sitecustomize` first, so the signal arrives before the server has installed its handlers."""
    (tmp_path / "sitecustomize.py").write_text(STOPPED_AT_ITS_START)
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    settings = {"DS_STORAGE__MODE": "file-fast", "DS_STORAGE__DATA_DIR": "data", "PYTHONPATH": path}
    with serving(tmp_path, **settings) as server:
        server.stop(signal.SIGUSR2)
        assert awaited(lambda: server.process.poll() is not None)
        code, out, _ = server.ended()
    assert (code, "everbrook is stopping" in out, report(tmp_path).phase) == (0, True, "ready")


TAKEN_BY_ANOTHER_THREAD = """
import os, signal, sys, threading, time
from everbrook.server.restart import delay_signals, take_delayed_signals

if sys.argv[1:] == ["next"]:
    signal.signal(signal.SIGTERM, lambda *_: print("taken"))
    take_delayed_signals()
else:
    thread = threading.Thread(target=time.sleep, args=(60,), daemon=True)
    thread.start()
    delay_signals()
    signal.pthread_kill(thread.ident, signal.SIGTERM)
    while signal.SIGTERM not in signal.sigpending():
        time.sleep(0.001)
    os.execv(sys.executable, [*sys.orig_argv, "next"])
"""


def test_a_stop_that_another_thread_takes_before_the_next_image_is_kept_for_it() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", TAKEN_BY_ANOTHER_THREAD], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (0, "taken\n")


@pytest.mark.timing
def test_a_stop_is_heard_while_a_restart_waits_for_who_is_slow(own: ServerProcess, tmp_path: Path) -> None:
    with own.connect() as sender:
        sender.ask("POST", PATH, content_type="text/plain", content_length="5").send(b"he")
        assert sender.nothing_for(0.1)
        own.stop(signal.SIGUSR2)
        assert awaited(lambda: report(tmp_path).phase == "leaving")
        own.stop(signal.SIGTERM)
        assert awaited(lambda: report(tmp_path).phase == "failed")
        began = time.monotonic()
        assert own.stop(signal.SIGTERM).ended()[0] == 0
    assert time.monotonic() - began < 5
    assert report(tmp_path).message == "a signal stopped the server"


def test_new_settings_count_from_the_restart_on(own: ServerProcess, tmp_path: Path) -> None:
    with own.connect() as wire:
        wire.create(PATH)
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "local.toml").write_text("[limits]\nmax_append_bytes = 3\n")
        assert restart(own, tmp_path).phase == "ready"
        assert wire.append(PATH, b"four").status == 413


def test_descriptors_are_neither_lost_nor_left_over(server: ServerProcess, folder: Path) -> None:
    descriptors = Path("/proc") / str(server.process.pid) / "fd"
    with server.connect() as wire:
        wire.get("/healthz")
        restart(server, folder)
        before = len(list(descriptors.iterdir()))
        restart(server, folder)
        assert wire.get("/healthz").status == 200
        assert len(list(descriptors.iterdir())) == before


ACTIVATION = """
import os, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
os.dup2(listener.fileno(), 9)
os.dup2(9, 3)
print(listener.getsockname()[1], flush=True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[1], [sys.argv[1], "serve"])
"""


def test_sockets_of_systemd_are_taken_and_systemd_is_told(tmp_path: Path) -> None:
    """The service manager listens, and starts the server with its sockets (sd_listen_fds(3), sd_notify(3))."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        supervisor.settimeout(PATIENCE_SECS)
        settings = environment(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="200000")
        command = [sys.executable, "-c", ACTIVATION, EVERBROOK]
        with subprocess.Popen(command, cwd=tmp_path, env=settings, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            told = {supervisor.recv(100) for _ in range(3)}
            assert f"127.0.0.1:{port}" in process.stdout.readline()
            os.kill(process.pid, signal.SIGHUP)
            while not (message := supervisor.recv(100)).startswith(b"RELOADING=1\nMONOTONIC_USEC="):
                assert message == b"WATCHDOG=1"
            process.terminate()
            while (message := supervisor.recv(100)) != b"STOPPING=1":
                told.add(message)
            assert process.wait() == 0
    assert told == {b"READY=1", b"WATCHDOG=1"}


def test_a_socket_of_systemd_stays_in_use_whatever_port_a_restart_finds(tmp_path: Path) -> None:
    settings = environment(DS_STORAGE__MODE="file-fast", DS_STORAGE__DATA_DIR="data")
    command = [sys.executable, "-c", ACTIVATION, EVERBROOK]
    with subprocess.Popen(command, cwd=tmp_path, env=settings, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        place = f"127.0.0.1:{process.stdout.readline().strip()}"
        assert [place in process.stdout.readline(), process.stdout.readline()[:7]] == [True, "storage"]
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "local.toml").write_text("[server]\nport = 1\n")
        process.send_signal(signal.SIGUSR2)
        told = [process.stdout.readline() for _ in range(3)]
        process.terminate()
    assert place in told[1]


@pytest.mark.parametrize("of_systemd", [True, False])
def test_where_systemd_listens_is_known_to_every_later_image(*, of_systemd: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        estate = Handover("a", 1, [os.dup(listener.fileno())], [], 1, of_systemd)
        inherited = inherit("a", 2, {VARIABLE: str(write_handover(estate))})
    for taken in inherited.listening:
        taken.close()
    assert (len(inherited.listening), inherited.of_systemd) == (of_systemd, of_systemd)


def test_the_report_is_a_file_that_others_can_read(server: ServerProcess, folder: Path) -> None:
    attempt = restart(server, folder).attempt
    document = json.loads((folder / "data" / "restart.json").read_text())
    assert document == {"attempt": attempt, "phase": "ready", "process": server.process.pid, "message": ""}
