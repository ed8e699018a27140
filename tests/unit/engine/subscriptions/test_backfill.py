"""Backfill: what a new subscription is linked to, looked up in slices while everything goes on."""

from collections.abc import Iterator

import pytest

from everbrook.engine import SubscriptionsTuning
from everbrook.engine.subscriptions.backfill import Backfill
from everbrook.protocol import STREAM_ROOT, Head
from everbrook.protocol.subscriptions import BEFORE_FIRST, Config, Subscription
from tests.kit.fakes import DelayedStorage
from tests.unit.engine.subscriptions.subscribing import HOOK, LEASE_MS, SubscribingRig

CONFIG = Config("webhook", "events/*", (), HOOK, lease_ttl_ms=LEASE_MS)
SLICE = 4


class CountingStorage(DelayedStorage):
    """A storage that counts the streams that it was asked for by their order."""

    def __init__(self) -> None:
        super().__init__()
        self.scanned = 0

    def scan(self, prefix: bytes, after: bytes, limit: int) -> list[tuple[bytes, Head | None]]:
        found = super().scan(prefix, after, limit)
        self.scanned += len(found)
        return found


@pytest.fixture
def storage() -> CountingStorage:
    return CountingStorage()


@pytest.fixture
def rig(storage: CountingStorage) -> Iterator[SubscribingRig]:
    """Ten streams of three bytes each."""
    rig = SubscribingRig(storage, tuning=SubscriptionsTuning(backfill_slice=SLICE))
    for number in range(10):
        rig.put(f"events/{number}", b"123")
    rig.settle()
    yield rig
    rig.settle()
    rig.engine.close()


def begin(rig: SubscribingRig) -> Backfill:
    backfill = rig.subscriptions.begin_backfill(STREAM_ROOT, "s", CONFIG)
    assert backfill is not None
    return backfill


def end(rig: SubscribingRig, backfill: Backfill) -> Subscription:
    while not backfill.step():
        pass
    return rig.subscriptions.subscribe(STREAM_ROOT, "s", "http://here", CONFIG, backfill)[0]


def test_each_step_looks_at_a_slice(rig: SubscribingRig, storage: CountingStorage) -> None:
    backfill, looked_at = begin(rig), []
    going_on = True
    while going_on:
        storage.scanned = 0
        going_on = not backfill.step()
        looked_at.append(storage.scanned)
    storage.scanned = 0
    assert len(end(rig, backfill).links) == 10
    assert (looked_at, storage.scanned) == ([4, 4, 2], 0)


def test_what_is_appended_to_a_stream_that_was_looked_at_is_news(rig: SubscribingRig) -> None:
    backfill = begin(rig)
    backfill.step()
    rig.add("events/0")
    rig.settle()
    found = end(rig, backfill)
    rig.settle()
    assert found.links["events/0"].acked == 3
    assert [list(sent.wake.tails) for sent in rig.sent] == [["events/0"]]


def test_what_was_appended_before_a_stream_is_looked_at_is_none(rig: SubscribingRig) -> None:
    backfill = begin(rig)
    backfill.step()
    rig.add("events/9")
    rig.settle()
    found = end(rig, backfill)
    rig.settle()
    assert (found.links["events/9"].acked, rig.sent) == (4, [])


def test_a_stream_that_is_not_durable_at_the_end_is_linked_at_its_tail(rig: SubscribingRig) -> None:
    backfill = begin(rig)
    rig.put("events/x", b"12345")
    found = end(rig, backfill)
    rig.settle()
    assert (found.links["events/x"].acked, rig.sent) == (5, [])


def test_a_stream_that_is_deleted_meanwhile_leaves_no_link(rig: SubscribingRig) -> None:
    backfill = begin(rig)
    backfill.step()
    rig.remove("events/0")
    rig.settle()
    rig.put("events/0", b"1")
    rig.settle()
    found = end(rig, backfill)
    rig.settle()
    assert found.acked("events/0", rig.kept_incarnation("events/0")) == BEFORE_FIRST
    assert "events/0" not in found.links
    assert [list(sent.wake.tails) for sent in rig.sent] == [["events/0"]]


def test_a_subscription_that_is_there_needs_no_backfill(rig: SubscribingRig) -> None:
    end(rig, begin(rig))
    assert rig.subscriptions.begin_backfill(STREAM_ROOT, "s", CONFIG) is None


def test_one_of_two_that_are_created_at_once_finds_the_other(rig: SubscribingRig) -> None:
    first, second = begin(rig), begin(rig)
    assert end(rig, first) is end(rig, second)


def test_a_backfill_that_is_closed_hears_of_nothing_more(rig: SubscribingRig) -> None:
    before = len(rig.engine.followers)
    backfill = begin(rig)
    backfill.close()
    assert (backfill.close(), len(rig.engine.followers)) == ((), before)
