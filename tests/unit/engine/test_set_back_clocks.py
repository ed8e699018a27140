"""A clock that is set back between two runs: nothing waits for a time that only the old clock would have reached."""

from collections.abc import Callable

import pytest

from everbrook.engine.tuning import DEFAULT_TUNING, SubscriptionsTuning
from everbrook.protocol import REGISTRY, STREAM_ROOT, PublishSnapshot
from everbrook.protocol.errors import StreamNotFound, TokenGone
from everbrook.server.resources.registry import Registry
from everbrook.server.tuning import RegistryTuning
from everbrook.storage import MemoryStorage
from tests.kit.fakes import LastingStorage
from tests.unit.engine.rig import TEXT, Rig
from tests.unit.engine.subscriptions.subscribing import LEASE_MS, SubscribingRig

YEAR_MS = 365 * 24 * 3600 * 1000
LONGEST_MS = DEFAULT_TUNING.subscriptions.longest_retry_ms
PUBLISH = PublishSnapshot(b"a", 0, 1, TEXT)
FLUSH_MS = int(RegistryTuning().flush_secs * 1000)


def restart_a_year_back(rig: Rig | SubscribingRig) -> None:
    rig.clock.set_back_ms += YEAR_MS
    rig.restart()


# Leases and pauses


def hooked() -> SubscribingRig:
    """An engine whose webhook subscription `s` has been told of an event."""
    rig = SubscribingRig(LastingStorage())
    rig.put("events/a")
    rig.hook()
    rig.settle()
    rig.add("events/a")
    rig.settle()
    return rig


def claimed() -> SubscribingRig:
    """An engine whose pull-wake subscription `s` a worker has claimed."""
    rig = SubscribingRig(LastingStorage())
    rig.put_wake_stream()
    rig.put("events/a")
    rig.pull()
    rig.add("events/a")
    rig.settle()
    rig.claim()
    rig.settle()
    return rig


@pytest.mark.parametrize("make", [hooked, claimed])
def test_a_lease_ends_its_length_after_the_start_at_the_latest(make: Callable[[], SubscribingRig]) -> None:
    rig = make()
    restart_a_year_back(rig)
    rig.settle()
    wake = rig.found().wake
    assert wake is not None
    assert wake.lease_until == rig.clock.now() + LEASE_MS


def test_a_lease_of_a_lost_worker_lapses_after_the_start() -> None:
    rig = claimed()
    restart_a_year_back(rig)
    rig.settle()
    generation = rig.found().generation
    rig.pass_time(LEASE_MS + 1)
    rig.settle()
    assert rig.found().generation > generation


def test_a_lease_is_not_made_longer_by_a_start() -> None:
    rig = claimed()
    rig.pass_time(LEASE_MS // 2)
    wake = rig.found().wake
    rig.restart()
    rig.settle()
    assert rig.found().wake == wake


def test_a_pause_ends_the_longest_one_after_the_start_at_the_latest() -> None:
    rig = hooked()
    rig.answer(taken=False)
    rig.settle()
    restart_a_year_back(rig)
    rig.settle()
    assert rig.found().next_attempt_at == rig.clock.now() + LONGEST_MS


def test_a_delivery_is_tried_again_after_the_start() -> None:
    rig = hooked()
    rig.answer(taken=False)
    rig.settle()
    restart_a_year_back(rig)
    rig.settle()
    sent = len(rig.sent)
    rig.pass_time(LONGEST_MS)
    rig.settle()
    assert len(rig.sent) > sent


def test_the_longest_pause_is_that_of_many_failures() -> None:
    assert SubscriptionsTuning(last_retry_ms=60_000, jitter=0.2).longest_retry_ms == 72_000
    assert SubscriptionsTuning(last_retry_ms=10, jitter=0.0).longest_retry_ms == 1_000


# Lifetimes


def test_a_stream_that_was_written_in_the_future_expires_its_ttl_after_the_start() -> None:
    rig = Rig(storage=LastingStorage())
    rig.create(b"a", b"1", ttl_secs=60)
    restart_a_year_back(rig)
    assert [name for name, _ in rig.engine.listing.living(b"a", b"", 10)] == [b"a"]
    rig.scheduler.advance(61_000)
    assert rig.engine.listing.living(b"a", b"", 10) == []
    with pytest.raises(StreamNotFound):
        rig.engine.readers.find(b"a", rig.clock.now())


def test_a_stream_that_was_loaded_in_time_lives_its_ttl_from_the_start_on() -> None:
    rig = Rig(storage=LastingStorage())
    rig.create(b"a", b"1", ttl_secs=60)
    restart_a_year_back(rig)
    assert rig.engine.readers.find(b"a", rig.clock.now()).touched_at == rig.clock.now()


# Numbers


def test_no_number_comes_back_of_a_stream_that_is_gone() -> None:
    rig = Rig(storage=LastingStorage())
    gone = rig.create(b"a").head.identity.incarnation
    rig.delete(b"a")
    restart_a_year_back(rig)
    assert rig.create(b"a").head.identity.incarnation > gone


def test_no_number_comes_back_of_a_blob() -> None:
    rig = Rig(storage=LastingStorage())
    rig.create(b"a", b"1")
    _, upload = (rig.engine.begin_snapshot(PUBLISH) for _ in range(2))
    upload.finish(lambda _: None)
    rig.work()
    rig.engine.publish(upload, PUBLISH)
    restart_a_year_back(rig)
    assert rig.engine.begin_snapshot(PUBLISH).blob > upload.blob


def test_an_engine_goes_on_behind_the_mark_of_its_storage() -> None:
    """The storage may know of numbers whose streams are gone."""
    storage = MemoryStorage()
    storage.last_incarnation = 5 << 60
    assert Rig(storage=storage).engine.new_incarnation() > 5 << 60


def test_a_token_of_an_earlier_run_is_none_of_this_one() -> None:
    """Two starts in one millisecond, or with a clock that was set back, have the same numbers."""
    rig = Rig(storage=LastingStorage())
    rig.create(b"a")
    restart_a_year_back(rig)
    token = rig.engine.recent_changes.token()
    rig.engine = rig.start()
    rig.engine.recent_changes.token()
    with pytest.raises(TokenGone):
        rig.engine.recent_changes.since(token.encode(), b"", 10)


def test_a_stream_that_is_created_again_at_the_same_time_is_told_of(rig: Rig) -> None:
    registry = Registry(rig.engine)
    rig.create(STREAM_ROOT + b"a")
    registry.wake()
    rig.scheduler.advance(FLUSH_MS)
    before = rig.engine.readers.size_of(REGISTRY)
    rig.clock.set_back_ms += FLUSH_MS
    rig.delete(STREAM_ROOT + b"a")
    rig.create(STREAM_ROOT + b"a")
    rig.scheduler.advance(FLUSH_MS)
    assert rig.engine.readers.size_of(REGISTRY) > before
