"""Backups of a server that is being written to, while clients and servers are killed: each that is there is one moment.

A writer appends a number to one stream and, when that is acknowledged, to a second one. At no moment has the second
more than the first, or less than one fewer.
"""

import random
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from everbrook import Client, ClientError, Retry
from everbrook.protocol.errors import ProtocolError
from tests.cli.archives import server_in
from tests.cli.backups import MODES, back_up, line, restore, whole
from tests.kit.server_process import serving

WRITERS = 3
KILLS = 4
APPENDS = 20
PATIENCE_SECS = 60


class Writer(threading.Thread):
    """Writes numbers to a pair of streams, the one after the other, and remembers what was acknowledged."""

    def __init__(self, url: str, name: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._url, self._ended = url, stop
        self.names = (f"{name}-first", f"{name}-second")
        self.acknowledged = [0, 0]

    def run(self) -> None:
        with Client(self._url, retry=Retry(max_attempts=1)) as client:
            streams = [client.stream(name) for name in self.names]
            try:
                for stream in streams:
                    stream.create()
                while not self._ended.is_set():
                    for place, stream in enumerate(streams):
                        stream.append({"n": self.acknowledged[place], "filling": "x" * 2000})
                        self.acknowledged[place] += 1
            except (ClientError, ProtocolError):
                return


@contextmanager
def writing(url: str, start: int = 0) -> Iterator[list[Writer]]:
    stop = threading.Event()
    writers = [Writer(url, f"w{start}-{number}", stop) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        yield writers
    finally:
        stop.set()
        for writer in writers:
            writer.join(PATIENCE_SECS)


def numbers(client: Client, name: str) -> list[int]:
    return [int(value["n"]) for value in client.stream(name).read().all()]


def assert_one_moment(url: str, writers: list[Writer], acknowledged: list[list[int]]) -> None:
    with Client(url) as client:
        for writer, (first_before, second_before) in zip(writers, acknowledged, strict=True):
            first, second = (numbers(client, name) for name in writer.names)
            assert first == list(range(len(first)))
            assert second == list(range(len(second)))
            assert len(first) >= first_before
            assert len(second) >= second_before
            assert len(first) - 1 <= len(second) <= len(first)


@pytest.mark.parametrize("mode", MODES)
def test_a_backup_under_load_is_one_moment_and_has_all_that_was_acknowledged(mode: str, tmp_path: Path) -> None:
    with server_in(tmp_path / "source", mode) as url, writing(url) as writers:
        moments = []
        for number in range(1, 3):
            while min(min(writer.acknowledged) for writer in writers) < number * APPENDS:
                assert all(writer.is_alive() for writer in writers)
                time.sleep(0.05)
            acknowledged = [list(writer.acknowledged) for writer in writers]
            moments.append((acknowledged, Path(back_up(url, tmp_path / "dest")["backup"])))
    for number, (acknowledged, backup) in enumerate(moments):
        (tmp_path / str(number)).mkdir()
        restore(backup, tmp_path / str(number) / "data")
        with server_in(tmp_path / str(number), mode) as restored:
            assert_one_moment(restored, writers, acknowledged)


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_is_killed_leaves_no_half_backup_and_frees_the_server(mode: str, tmp_path: Path) -> None:
    chance = random.Random(20_261_116)
    with server_in(tmp_path / "source", mode) as url, writing(url):
        began = time.monotonic()
        back_up(url, tmp_path / "dest")
        takes_secs = time.monotonic() - began
        for _ in range(KILLS):
            with subprocess.Popen(
                line("backup", url, tmp_path / "dest"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ) as process:
                time.sleep(takes_secs * chance.uniform(0.2, 1.2))
                process.kill()
        back_up(url, tmp_path / "dest")
    assert len(whole(tmp_path / "dest")) >= 2


@pytest.mark.parametrize("seed", range(2))
def test_a_server_that_is_killed_in_the_middle_is_told_of_and_is_backed_up_later(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    settings = {"DS_STORAGE__MODE": "acid", "DS_STORAGE__DATA_DIR": "data"}
    with serving(tmp_path, **settings) as server, writing("http://{}:{}".format(*server.address)):
        time.sleep(1.0)
        url = "http://{}:{}".format(*server.address)
        with subprocess.Popen(line("backup", url, tmp_path / "dest"), stderr=subprocess.PIPE, text=True) as process:
            time.sleep(chance.uniform(0.3, 1.0))
            server.process.kill()
            _, said = process.communicate(timeout=PATIENCE_SECS)
    assert process.returncode == 0 or "is the server running?" in said
    with serving(tmp_path, **settings) as server:
        back_up("http://{}:{}".format(*server.address), tmp_path / "dest")
    assert whole(tmp_path / "dest")
