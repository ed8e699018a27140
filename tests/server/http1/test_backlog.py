"""Connections that wait to be accepted."""

import threading
import time

import pytest

from tests.kit.server_thread import PATIENCE_SECS, RunningServer
from tests.kit.servers import Connect, Start

CROWD = 60


class Turns:
    """Counts the turns of a server's loop until it has accepted so many connections."""

    def __init__(self, server: RunningServer, accepted: int) -> None:
        self._listener = server.listener
        self._accepted = accepted
        self.count = 0
        self.done = threading.Event()

    def turn(self) -> None:
        self.count += 1
        if self._listener.survey().accepted >= self._accepted:
            self.done.set()
        else:
            # A turn in which there is something to do.
            time.sleep(0.005)
            self._listener.loop.call_soon(self.turn)


def test_those_who_wait_are_accepted_together_not_one_in_a_turn(start: Start, connect: Connect) -> None:
    server = start()
    turns = Turns(server, CROWD)
    server.listener.loop.call_soon_threadsafe(time.sleep, 0.5)
    wires = [connect(server) for _ in range(CROWD)]
    server.listener.loop.call_soon_threadsafe(turns.turn)
    assert turns.done.wait(PATIENCE_SECS)
    assert turns.count < CROWD / 2
    assert [wire.get("/healthz").status for wire in wires] == [200] * CROWD


def test_nothing_is_accepted_after_the_end(start: Start, connect: Connect) -> None:
    server = start()
    assert connect(server).get("/healthz").status == 200
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        server.connect()
