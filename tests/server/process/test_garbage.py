"""Garbage collection: full collections are rare, however many streams are created."""

import gc
from collections.abc import Iterator

import pytest

from everbrook.engine import Faults
from everbrook.server.garbage import BUSY_RATIO, IDLE_RATIO, LEAST_PAUSE_SECS, FullCollections
from tests.kit.fakes import FakeClock, FakeScheduler


class Collector:
    """Takes some seconds for each collection."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.scheduler = FakeScheduler(self.clock)
        self.collections = 0
        self.collecting_secs = 0.0
        self.idle = True
        faults = Faults(self.clock, self.scheduler)
        self.paced = FullCollections(faults, lambda: self.idle, self.collect, self.clock.elapsed)

    def collect(self) -> None:
        self.collections += 1
        self.clock.micros += round(self.collecting_secs * 1_000_000)

    def make_old(self) -> None:
        """Let objects survive the collections of younger ones."""
        gc.collect(1)

    def pass_secs(self, secs: float) -> None:
        self.scheduler.advance(round(secs * 1000))


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.paced.stop()


def test_growth_begins_no_full_collection(collector: Collector) -> None:
    before = gc.get_stats()[2]["collections"]
    kept = [[number] for number in range(1_000_000)]
    assert len(kept) == 1_000_000
    assert gc.get_stats()[2]["collections"] == before


def test_old_objects_are_collected_after_a_pause(collector: Collector) -> None:
    collector.make_old()
    collector.pass_secs(LEAST_PAUSE_SECS)
    assert collector.collections == 2


def test_the_longer_a_collection_takes_the_longer_is_the_pause(collector: Collector) -> None:
    collector.collecting_secs = 0.05
    collector.make_old()
    collector.pass_secs(LEAST_PAUSE_SECS)
    collector.make_old()
    collector.pass_secs(0.05 * IDLE_RATIO - 1)
    assert collector.collections == 2
    collector.pass_secs(2)
    assert collector.collections == 3


def test_a_collection_waits_until_no_request_arrives(collector: Collector) -> None:
    collector.idle = False
    collector.make_old()
    collector.pass_secs(5 * LEAST_PAUSE_SECS)
    assert collector.collections == 1
    collector.idle = True
    collector.pass_secs(1)
    assert collector.collections == 2


def test_a_server_that_is_never_idle_collects_in_the_end(collector: Collector) -> None:
    collector.idle = False
    collector.make_old()
    collector.pass_secs(LEAST_PAUSE_SECS * BUSY_RATIO / IDLE_RATIO)
    assert collector.collections == 2


def test_nothing_is_collected_while_nothing_becomes_old(collector: Collector) -> None:
    gc.collect()
    collector.pass_secs(5 * LEAST_PAUSE_SECS)
    assert collector.collections == 1


def test_a_server_that_has_stopped_leaves_full_collections_to_python() -> None:
    before = gc.get_threshold()
    collector = Collector()
    assert gc.get_threshold() != before
    collector.paced.stop()
    assert gc.get_threshold() == before
