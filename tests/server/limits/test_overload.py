"""The control of overload, on a server that is a few lines of arithmetic: every course of it follows from its seed."""

import random

import pytest

from everbrook.server.limits.overload import (
    FIRST_BACK,
    HARD,
    HOLD_SECS,
    LEAST,
    SOFT,
    Bounds,
    Overload,
    hold_secs,
    wait_secs,
)
from everbrook.server.limits.tuning import OverloadTuning

TUNING = OverloadTuning()
BEAT_SECS = 0.025
BOUND_SECS = 0.25


class Simulated:
    """A server that does `capacity` requests a second, and clients that ask again and again, answered or not."""

    def __init__(self, seed: int, capacity: float, clients: int, bounds: Bounds = Bounds(BOUND_SECS)) -> None:  # noqa: B008
        self.random = random.Random(seed)
        self.overload = Overload(bounds, TUNING)
        self.capacity = capacity
        self.clients = clients
        self.held: list[float] = []
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
            self.overload.observe(self.waits[-1], 0.0, self.now)

    def _read(self, requests: float) -> None:
        strain = self.overload.strain(self.backlog / self.capacity, 0.0)
        if self.overload.admits(strain, len(self.held), self.clients):
            self.backlog += requests
        else:
            self.held.append(self.now + hold_secs(len(self.held)))

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
    refused = server.overload.refused
    server.run(0.5 * server.capacity, 8)
    assert server.overload.calm
    assert server.overload.refused - refused < 256
    assert 0.4 < server.goodput(6) < 0.6


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_refused_of_what_a_server_can_do(seed: int) -> None:
    server = Simulated(seed, 1e4, 256)
    server.run(0.9 * server.capacity, 20)
    assert server.overload.refused == 0


def test_a_burst_is_no_overload() -> None:
    server = Simulated(1, 1e4, 256)
    server.run(10 * server.capacity, 2 * BEAT_SECS)
    server.run(0.1 * server.capacity, 2)
    assert server.overload.refused == 0


def test_without_the_control_the_wait_grows_and_grows() -> None:
    server = Simulated(1, 1e4, 256, Bounds())
    server.run(3 * server.capacity, 20)
    assert server.waits[-1] > 30


def test_a_disk_that_does_not_keep_up_counts_like_a_loop_that_does_not() -> None:
    overload = Overload(Bounds(0, 1.0), TUNING)
    for beat in range(100):
        overload.observe(0.0, 2.0, beat * BEAT_SECS)
    assert not overload.calm


def test_however_bad_it_is_some_are_admitted() -> None:
    overload = Overload(Bounds(BOUND_SECS), TUNING)
    for beat in range(2000):
        overload.observe(10.0, 0.0, beat * BEAT_SECS)
    assert overload.fraction == LEAST
    assert overload.admits(40.0, held=95, busy=100)
    assert not overload.admits(40.0, held=94, busy=100)


def test_a_delay_must_stand_before_it_counts() -> None:
    overload = Overload(Bounds(BOUND_SECS), TUNING)
    for beat in range(int(TUNING.standing_secs / BEAT_SECS)):
        overload.observe(1.0, 0.0, 100 + beat * BEAT_SECS)
    assert overload.calm


def test_readers_that_follow_are_refused_last() -> None:
    overload = Overload(Bounds(BOUND_SECS), TUNING)
    overload.fraction = LEAST
    assert not overload.admits(1.0, held=0, busy=100)
    assert overload.admits_follower(1.0)
    assert not overload.admits_follower(HARD + 0.1)


def test_nobody_is_refused_while_there_is_no_delay_any_more() -> None:
    overload = Overload(Bounds(BOUND_SECS), TUNING)
    overload.fraction = LEAST
    assert overload.admits(SOFT - 0.1, held=0, busy=100)
    assert overload.refused == 0


def test_a_client_that_is_alone_is_never_refused() -> None:
    overload = Overload(Bounds(BOUND_SECS), TUNING)
    overload.fraction = LEAST
    assert overload.admits(100.0, held=0, busy=1)


def test_a_delay_that_becomes_smaller_is_given_time() -> None:
    overload = Overload(Bounds(BOUND_SECS), TUNING)
    for beat in range(60):
        overload.observe(10.0 * 0.95**beat, 0.0, 100 + beat * BEAT_SECS)
    assert overload.fraction == FIRST_BACK


def test_the_more_are_held_the_longer_they_are() -> None:
    assert max(map(hold_secs, range(100))) <= HOLD_SECS
    assert max(map(hold_secs, range(20_000, 20_100))) > 9
    assert {wait_secs(held) for held in range(100)} == {1, 2}


def test_those_who_are_held_do_not_all_come_back_at_once() -> None:
    assert len({round(hold_secs(held), 2) for held in range(100)}) > 10
