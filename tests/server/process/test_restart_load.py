"""Restarts under load: failed requests are counted, and there are none; nothing is lost, and order is kept.

A control stops and starts the server instead. It must show failures, or the count would prove nothing.
"""

import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from everbrook.server.restart import read_report
from tests.kit.server_process import EVERBROOK, ServerProcess, environment, serving
from tests.kit.wire import Wire
from tests.server.process.restarts import awaited

PATH = "/v1/stream/load"
PRODUCERS, RESTARTS = 4, 3
CALM_SECS = 0.3
# Between two requests of a client: what is busy without a break delays the restart, and proves no more.
PAUSE_SECS = 0.004
ACT = Callable[[Wire, bytearray], None]


class Load:
    """Clients with kept connections. A failed request is counted, and tried again on a new connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._over = threading.Event()
        self.failures: list[str] = []
        self.sent = [0] * PRODUCERS
        self.seen = [bytearray() for _ in range(3)]
        reads: list[ACT] = [self._catch_up, self._poll, self._follow]
        self._threads = [
            *(threading.Thread(target=self._produce, args=(number,)) for number in range(PRODUCERS)),
            *(threading.Thread(target=self._drive, args=each) for each in zip(reads, self.seen, strict=True)),
        ]

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _drive(self, act: ACT, seen: bytearray) -> None:
        while not self._over.is_set():
            try:
                with Wire(self._address) as wire:
                    while not self._over.is_set():
                        act(wire, seen)
                        time.sleep(PAUSE_SECS)
            except (OSError, EOFError) as error:
                self.failures.append(repr(error))
                time.sleep(0.05)

    def _produce(self, number: int) -> None:
        self._drive(lambda wire, _: self._append(wire, number), bytearray())

    def _append(self, wire: Wire, number: int) -> None:
        seq = self.sent[number]
        claim = {"producer_id": f"p{number}", "producer_epoch": "0", "producer_seq": str(seq)}
        self._require(wire.append(PATH, f"{number}-{seq};".encode(), **claim).status, {200, 204})
        self.sent[number] += 1

    def _require(self, status: int, statuses: set[int]) -> None:
        if status not in statuses:
            self.failures.append(str(status))

    def _catch_up(self, wire: Wire, seen: bytearray) -> None:
        self._take(wire, f"{PATH}?offset={len(seen):016d}", seen)

    def _poll(self, wire: Wire, seen: bytearray) -> None:
        self._take(wire, f"{PATH}?offset={len(seen):016d}&live=long-poll", seen)

    def _take(self, wire: Wire, target: str, seen: bytearray) -> None:
        answer = wire.get(target)
        self._require(answer.status, {200, 204})
        seen += answer.body

    def _follow(self, wire: Wire, seen: bytearray) -> None:
        follower = wire.follow(f"{PATH}?offset={len(seen):016d}&live=sse")
        self._require(follower.head.status, {200})
        while not self._over.is_set() and (event := follower.event()) is not None:
            if event.type == b"data":
                seen += event.data


def settings(folder: Path) -> dict[str, str]:
    values = {"DS_STORAGE__MODE": "acid", "DS_STORAGE__DATA_DIR": str(folder / "data")}
    return values | {"DS_SERVER__LONG_POLL_TIMEOUT_SECS": "0.5", "DS_SERVER__SSE_RECONNECT_INTERVAL_SECS": "2"}


def restart(server: ServerProcess, folder: Path) -> None:
    report = folder / "data" / "restart.json"
    before = read_report(report).attempt
    server.stop(signal.SIGUSR2)
    assert awaited(lambda: read_report(report).attempt > before and read_report(report).phase == "ready")


def stored(server: ServerProcess) -> bytes:
    parts: list[bytes] = []
    with server.connect() as wire:
        answer = wire.get(PATH)
        while answer.body:
            parts.append(answer.body)
            answer = wire.get(f"{PATH}?offset={answer.next_offset}")
    return b"".join(parts)


def test_restarts_under_load_fail_no_request_and_lose_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, **settings(tmp_path)) as server:
        with server.connect() as wire:
            wire.create(PATH)
        load = Load(server.address)
        load.begin()
        try:
            for _ in range(RESTARTS):
                time.sleep(CALM_SECS)
                restart(server, tmp_path)
        finally:
            load.end()
        content = stored(server)
        assert (load.failures, server.process.poll()) == ([], None)
    for number in range(PRODUCERS):
        assert re.findall(rb"\b%d-(\d+);" % number, content) == [b"%d" % seq for seq in range(load.sent[number])]
    assert all(seen and content.startswith(seen) for seen in load.seen)


def test_the_count_sees_what_a_stop_and_a_start_do(tmp_path: Path) -> None:
    with serving(tmp_path, **settings(tmp_path)) as server:
        with server.connect() as wire:
            wire.create(PATH)
        load = Load(server.address)
        load.begin()
        time.sleep(CALM_SECS)
        server.stop(signal.SIGTERM).process.wait()
        command = [EVERBROOK, "serve", "--port", str(server.address[1])]
        inherited = environment(**settings(tmp_path))
        with subprocess.Popen(command, cwd=tmp_path, env=inherited, stdout=subprocess.PIPE) as again:
            assert again.stdout is not None
            again.stdout.readline()
            load.end()
            again.terminate()
        assert load.failures
