"""Kills of programs that copy a source, and of their server, until all of it is copied: each order is there once."""

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from everbrook import Client
from soak.ledger import PromiseBroken
from soak.progress import say
from soak.resuming.programs import POSITION_SUFFIX, STREAM
from soak.resuming.sources import Order, filled
from soak.server import HOST, Server

PROGRAMS = "soak.resuming.programs"
KINDS = ("file", "table", "queue")
CARELESS = "careless"
ORDERS = 1_500
MAX_KILLS = 4
SERVER_KILLS = 0.3
"""The share of kills that end the server too."""
LOOK_SECS = 0.002


@dataclass(frozen=True)
class Resumed:
    """What runs of programs came to."""

    runs: int
    kills: int
    server_kills: int


def soak_resuming(mode: str, folder: Path, *, runs: int, seed: int, kinds: Sequence[str] = KINDS) -> Resumed:
    """Copy sources of all kinds, so many times. Raises `PromiseBroken` if an order is missing, doubled or misplaced."""
    random = Random(seed)  # noqa: S311 - it must replay
    orders: list[Order] = [{"id": number, "text": "x" * random.randrange(200)} for number in range(ORDERS)]
    kills = server_kills = 0
    for kind in kinds:
        with filled(kind, folder / kind, orders) as source, Server(mode, folder / f"data-{kind}") as server:
            for run in range(runs):
                copying = Copying(kind, server, source, random)
                copying.run(len(orders))
                _judge(copying, orders, f"{kind}, run {run} of seed {seed}")
                kills, server_kills = kills + copying.kills, server_kills + copying.server_kills
            say(f"{mode}: {kind} copied {runs} times over {kills} kills so far, {server_kills} of the server")
    return Resumed(runs * len(kinds), kills, server_kills)


class Copying:
    """One copy of a source, by as many programs as it takes."""

    def __init__(self, kind: str, server: Server, source: str, random: Random) -> None:
        self._kind = kind
        self._server = server
        self._source = source
        self._random = random
        self.url = f"http://{HOST}:{server.port}"
        self.kills = self.server_kills = 0

    def run(self, orders: int) -> None:
        """Start the program again and again, kill it at some number of orders, and let the last one end."""
        with Client(self.url) as client:
            client.stream(STREAM).delete(missing_ok=True)
            client.stream(STREAM).create()
        Path(self._source).with_suffix(POSITION_SUFFIX).unlink(missing_ok=True)
        places = sorted(self._random.randrange(orders) for _ in range(self._random.randint(1, MAX_KILLS)))
        for place in places:
            self._run_until(place)
        if code := self._start().wait():
            raise PromiseBroken(f"the program that copies a {self._kind} ended with {code}")

    def _start(self) -> "subprocess.Popen[bytes]":
        program = [sys.executable, "-m", PROGRAMS, self._kind, self.url, self._source]
        return subprocess.Popen(program)  # noqa: S603 - of our own

    def _run_until(self, place: int) -> None:
        """Kill a program when so many orders are copied, or when it has ended."""
        with self._start() as process, Client(self.url) as client:
            while process.poll() is None and _copied(client) <= place:
                time.sleep(LOOK_SECS)
            if self._random.random() < SERVER_KILLS:
                self._server.kill()
                self.server_kills += 1
            process.kill()
        self.kills += 1
        if self._server.exit_code is not None:
            self._server.start()


def _copied(client: Client) -> int:
    return next((int(order["id"]) + 1 for order in client.stream(STREAM).read(last=1)), 0)


def _judge(copying: Copying, orders: Sequence[Order], which: str) -> None:
    with Client(copying.url) as client:
        found = client.stream(STREAM).read().all()
    if found != orders:
        first = next((at for at, (a, b) in enumerate(zip(found, orders, strict=False)) if a != b), len(orders))
        raise PromiseBroken(f"{which}: {len(found)} orders of {len(orders)} were copied, not alike from {first} on")
