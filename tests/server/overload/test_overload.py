"""The shedding of overload, on a server that is a few lines of arithmetic: every course of it follows from its seed."""

import random

import pytest

from everbrook.server.limits.overload import HOLD_SECS, SOFT, Shedding, hold_secs, wait_secs

WINDOW_SECS = 0.5
BEAT_SECS = 0.025
BOUND_SECS = 0.25


class Simulated:
    """A server that does `capacity` requests a second, and clients that ask again and again, answered or not."""

    def __init__(self, seed: int, capacity: float, clients: int) -> None:
        self.random = random.Random(seed)
        self.shedding = Shedding(WINDOW_SECS)
        self.capacity = capacity
        self.clients = clients
        self.held: list[float] = []
        self.refused = 0
        self.backlog = 0.0
        self.now = 100.0
        self.done: list[float] = []
        self.waits: list[float] = []

    def run(self, rate: float, seconds: float) -> None:
        """Let clients ask at a rate for a while; those that are held ask nothing."""
        for _ in range(int(seconds / BEAT_SECS)):
            self.now += BEAT_SECS
            self.held = [until for until in self.held if until > self.now]
            for _ in range(self.clients - len(self.held)):
                self._read(rate * BEAT_SECS / self.clients * self.random.uniform(0.5, 1.5))
            done = min(self.backlog, self.capacity * BEAT_SECS)
            self.backlog -= done
            self.done.append(done / BEAT_SECS)
            self.waits.append(self.backlog / self.capacity)
            self.shedding.observe(self.waits[-1] / BOUND_SECS, self.now)

    def _read(self, requests: float) -> None:
        if self.shedding.refuses(self.backlog / self.capacity / BOUND_SECS, len(self.held), self.clients):
            self.refused += 1
            self.held.append(self.now + hold_secs(len(self.held)))
        else:
            self.backlog += requests

    def goodput(self, seconds: float) -> float:
        """What was done in the last seconds, of what can be."""
        recent = self.done[-int(seconds / BEAT_SECS) :]
        return sum(recent) / len(recent) / self.capacity


SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_at_three_times_what_it_can_do_a_server_does_what_it_can(seed: int) -> None:
    draw = random.Random(seed)
    server = Simulated(seed, draw.uniform(1e3, 1e5), draw.choice([32, 100, 300]))
    server.run(3 * server.capacity, 30)
    assert server.goodput(20) >= 0.8


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_admitted_waits_no_longer_than_a_bound(seed: int) -> None:
    draw = random.Random(seed)
    server = Simulated(seed, draw.uniform(1e3, 1e5), draw.choice([32, 100, 300]))
    server.run(draw.uniform(2, 6) * server.capacity, 20)
    assert max(server.waits[-400:]) <= BOUND_SECS * 3


@pytest.mark.parametrize("seed", SEEDS)
def test_it_recovers_by_itself(seed: int) -> None:
    server = Simulated(seed, 1e4, 256)
    server.run(3 * server.capacity, 5)
    refused = server.refused
    server.run(0.5 * server.capacity, 8)
    assert not server.shedding.overloaded
    assert server.refused - refused < 256
    assert 0.4 < server.goodput(6) < 0.6


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_refused_of_what_a_server_can_do(seed: int) -> None:
    server = Simulated(seed, 1e4, 256)
    server.run(0.9 * server.capacity, 20)
    assert server.refused == 0


def test_a_burst_is_no_overload() -> None:
    server = Simulated(1, 1e4, 256)
    server.run(10 * server.capacity, 2 * BEAT_SECS)
    server.run(0.1 * server.capacity, 2)
    assert server.refused == 0


def overloaded(strain: float) -> Shedding:
    """Make a shedding that has observed such a strain for a while."""
    shedding = Shedding(WINDOW_SECS)
    for beat in range(100):
        shedding.observe(strain, 100 + beat * BEAT_SECS)
    return shedding


def test_however_bad_it_is_some_are_admitted() -> None:
    shedding = overloaded(4.0)
    assert shedding.refuses(4.0, held=97, busy=100)
    assert not shedding.refuses(4.0, held=98, busy=100)


def test_a_delay_must_last_before_it_counts() -> None:
    shedding = Shedding(WINDOW_SECS)
    for beat in range(int(WINDOW_SECS / BEAT_SECS)):
        shedding.observe(4.0, 100 + beat * BEAT_SECS)
    assert not shedding.overloaded


def test_a_delay_after_a_silence_is_one_of_its_own() -> None:
    shedding = Shedding(WINDOW_SECS)
    for second in range(10):
        shedding.observe(4.0, 100 + second)
    assert not shedding.overloaded


def test_nobody_is_refused_while_there_is_no_delay_any_more() -> None:
    shedding = overloaded(4.0)
    assert shedding.overloaded
    assert not shedding.refuses(SOFT - 0.1, held=0, busy=100)


def test_a_client_that_is_alone_is_never_refused() -> None:
    assert not overloaded(100.0).refuses(100.0, held=0, busy=1)


def test_the_more_are_held_the_longer_they_are() -> None:
    assert max(map(hold_secs, range(100))) <= HOLD_SECS
    assert max(map(hold_secs, range(20_000, 20_100))) > 9
    assert {wait_secs(held) for held in range(100)} == {1, 2}


def test_those_who_are_held_do_not_all_come_back_at_once() -> None:
    assert len({round(hold_secs(held), 2) for held in range(100)}) > 10
