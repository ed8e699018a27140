"""A new start in every phase loses no wake and repeats no generation; deletion in every phase leaves nothing."""

from collections.abc import Callable

import pytest

from everbrook.engine import SubscriptionsTuning
from everbrook.engine.subscriptions.index import record_name
from everbrook.engine.tuning import DEFAULT_TUNING
from everbrook.protocol import STREAM_ROOT
from everbrook.protocol.errors import Fenced, SubscriptionNotFound
from everbrook.storage import MemoryStorage
from tests.kit.fakes import DelayedStorage, LastingStorage
from tests.unit.engine.subscriptions.subscribing import LEASE_MS, SubscribingRig, comparable

RECORD = record_name(STREAM_ROOT, "s")
USUAL = DEFAULT_TUNING.subscriptions
COMPACT_ALWAYS = SubscriptionsTuning(compact_at_bytes=-(10**9))


def hooked(tuning: SubscriptionsTuning = USUAL, storage: MemoryStorage | None = None) -> SubscribingRig:
    """An engine with a webhook subscription `s` to the empty stream `events/a`."""
    rig = SubscribingRig(storage, tuning=tuning)
    rig.put("events/a")
    rig.hook()
    rig.settle()
    return rig


def pulled(tuning: SubscriptionsTuning = USUAL, storage: MemoryStorage | None = None) -> SubscribingRig:
    """An engine with a pull-wake subscription `s` to the empty stream `events/a`."""
    rig = SubscribingRig(storage, tuning=tuning)
    rig.put_wake_stream()
    rig.put("events/a")
    rig.pull()
    rig.settle()
    return rig


# The phases of a subscription with one event that nobody has acknowledged.


def idle_with_news(tuning: SubscriptionsTuning = USUAL) -> SubscribingRig:
    rig = hooked(tuning)
    rig.add("events/a")
    rig.let_group_arrive()
    return rig


def wake_on_its_way(tuning: SubscriptionsTuning = USUAL) -> SubscribingRig:
    rig = idle_with_news(tuning)
    rig.scheduler.settle()
    return rig


def woken(tuning: SubscriptionsTuning = USUAL) -> SubscribingRig:
    rig = hooked(tuning)
    rig.add("events/a")
    rig.settle()
    return rig


def taken_and_unacked(tuning: SubscriptionsTuning = USUAL) -> SubscribingRig:
    rig = woken(tuning)
    rig.answer()
    rig.settle()
    return rig


def failed(tuning: SubscriptionsTuning = USUAL) -> SubscribingRig:
    rig = woken(tuning)
    rig.answer(taken=False)
    rig.settle()
    return rig


def failed_and_lapsed(tuning: SubscriptionsTuning = USUAL) -> SubscribingRig:
    rig = failed(tuning)
    while rig.found().wake:
        rig.pass_time(100)
        if rig.found().next_attempt_at <= rig.clock.now():
            rig.answer(taken=False)
            rig.settle()
    return rig


def told(tuning: SubscriptionsTuning = USUAL) -> SubscribingRig:
    rig = pulled(tuning)
    rig.add("events/a")
    rig.settle()
    return rig


def claimed(tuning: SubscriptionsTuning = USUAL) -> SubscribingRig:
    rig = told(tuning)
    rig.claim()
    rig.settle()
    return rig


def without_wake_stream(tuning: SubscriptionsTuning = USUAL) -> SubscribingRig:
    rig = pulled(tuning)
    rig.remove("wake")
    rig.add("events/a")
    rig.settle()
    return rig


HOOK_PHASES = [idle_with_news, wake_on_its_way, woken, taken_and_unacked, failed, failed_and_lapsed]
PULL_PHASES = [told, claimed, without_wake_stream]
Phase = Callable[..., SubscribingRig]


@pytest.mark.parametrize("phase", HOOK_PHASES)
def test_a_webhook_is_woken_after_a_start_in_whatever_phase(phase: Phase) -> None:
    """§7: no wake is lost, and no generation has two wakes."""
    rig = phase()
    before = {sent.generation: sent.wake.wake_id for sent in rig.sent}
    before_long = rig.clock.now() + 3 * LEASE_MS
    rig.sent.clear()
    rig.crash()
    while not rig.sent and rig.clock.now() < before_long:
        rig.pass_time(100)

    assert rig.sent
    assert all(before.get(sent.generation, sent.wake.wake_id) == sent.wake.wake_id for sent in rig.sent)
    rig.answer(done=True)
    rig.settle()
    assert (rig.found().wake, rig.found().links["events/a"].acked) == (None, 1)


@pytest.mark.parametrize("phase", HOOK_PHASES)
def test_nothing_is_sent_after_a_start_that_is_not_durable(phase: Phase) -> None:
    rig = phase()
    rig.sent.clear()
    rig.crash()
    rig.scheduler.settle()
    stored = rig.stored()

    assert stored is not None
    assert all(stored.wake is not None and sent.wake == stored.wake for sent in rig.sent)


@pytest.mark.parametrize("phase", PULL_PHASES)
def test_a_worker_is_told_after_a_start_in_whatever_phase(phase: Phase) -> None:
    """§7: no wake is lost."""
    rig = phase()
    if phase is without_wake_stream:
        rig.put_wake_stream()
        rig.let_group_arrive()
    rig.crash()
    rig.pass_time(2 * LEASE_MS)
    generations = [event.generation for event in rig.events()]

    assert generations == list(range(1, len(generations) + 1))
    assert generations[-1] == rig.found().generation
    assert rig.claim().tails["events/a"].acked == 1


@pytest.mark.parametrize("phase", [*HOOK_PHASES, *PULL_PHASES])
def test_a_start_finds_what_was_durable(phase: Phase) -> None:
    rig = phase()
    rig.settle()
    before = comparable(rig, rig.found())
    rig.crash()

    assert comparable(rig, rig.found()) == before


@pytest.mark.parametrize("phase", [*HOOK_PHASES, *PULL_PHASES])
def test_a_subscription_may_be_deleted_in_whatever_phase(phase: Phase) -> None:
    """§6.3: what is under way for it finds nothing."""
    rig = phase()
    rig.subscriptions.unsubscribe(STREAM_ROOT, "s")
    sent = len(rig.sent)
    if sent:
        rig.answer(done=True)
    rig.pass_time(3 * LEASE_MS)
    with pytest.raises(SubscriptionNotFound):
        rig.report_nothing()

    assert (len(rig.sent), rig.stored(), rig.storage.load(RECORD)) == (sent, None, None)
    rig.crash()
    rig.pass_time(3 * LEASE_MS)
    with pytest.raises(SubscriptionNotFound):
        rig.found()
    assert len(rig.sent) == sent


@pytest.mark.parametrize("phase", [*HOOK_PHASES, *PULL_PHASES])
def test_the_stream_may_be_deleted_in_whatever_phase(phase: Phase) -> None:
    rig = phase()
    rig.remove("events/a")
    rig.pass_time(6 * LEASE_MS)
    rig.sent.clear()
    rig.put("events/a", b"12")
    rig.pass_time(6 * LEASE_MS)

    if rig.found().pull:
        assert rig.claim().tails["events/a"].acked == 2
    else:
        assert rig.sent[-1].wake.tails["events/a"].acked == 2


def test_a_retry_is_not_hastened_by_a_start() -> None:
    """§7.1: a freshly loaded object honours the prior retry schedule."""
    rig = failed()
    retry_at = rig.found().next_attempt_at
    rig.crash()
    rig.pass_time(retry_at - rig.clock.now() - 1)
    assert len(rig.sent) == 1
    rig.pass_time(1)

    assert [sent.at for sent in rig.sent[1:]] == [retry_at]
    rig.answer(taken=False)
    rig.settle()
    assert rig.found().failures == 2


def test_a_retry_after_the_lease_is_not_hastened_by_a_start() -> None:
    rig = failed_and_lapsed()
    retry_at, sent = rig.found().next_attempt_at, len(rig.sent)
    rig.crash()
    rig.pass_time(retry_at - rig.clock.now() - 1)
    assert len(rig.sent) == sent
    rig.pass_time(1)

    assert [(later.at, later.generation) for later in rig.sent[sent:]] == [(retry_at, 2)]


def test_a_lease_is_not_prolonged_by_a_start() -> None:
    rig = claimed()
    stale, lease_until = rig.found().wake, rig.clock.now() + LEASE_MS
    rig.crash()
    rig.pass_time(lease_until - rig.clock.now())

    assert rig.found().generation == 2
    assert stale is not None
    with pytest.raises(Fenced):
        rig.report_on("s", stale.wake_id, 1, done=True)


def test_a_worker_goes_on_after_a_start() -> None:
    rig = claimed()
    rig.crash()
    rig.settle()

    assert not rig.report("s", ("events/a", 1), done=True)
    assert rig.found().links["events/a"].acked == 1


def test_a_start_with_no_stream_at_all_begins_with_nothing_under_way() -> None:
    """Whoever starts it can only be told of deliveries when it has started."""
    rig = woken()
    rig.remove("events/a")
    rig.settle()
    sent = len(rig.sent)
    rig.crash()
    assert len(rig.sent) == sent
    rig.settle()

    assert len(rig.sent) == sent + 1


def test_a_subscription_deleted_while_a_start_goes_on_is_not_woken() -> None:
    rig = woken()
    rig.sent.clear()
    rig.crash()
    rig.subscriptions.unsubscribe(STREAM_ROOT, "s")
    rig.pass_time(2 * LEASE_MS)

    assert rig.sent == []


def test_more_streams_than_one_look_takes_are_all_looked_at() -> None:
    rig = hooked(SubscriptionsTuning(scan_slice=3))
    for number in range(10):
        rig.put(f"events/{number}", b"x")
    for number in range(5):
        rig.hook(f"s{number}", "none")
    rig.let_group_arrive()
    rig.crash()
    rig.settle()
    rig.answer(done=True)
    rig.settle()

    assert len({path for sent in rig.sent for path in sent.wake.tails}) == 10


# Compaction


@pytest.mark.parametrize("storage", [DelayedStorage, LastingStorage])
def test_a_long_life_leaves_a_short_record(storage: type[MemoryStorage]) -> None:
    rig = hooked(SubscriptionsTuning(compact_at_bytes=1000), storage())
    for number in range(60):
        rig.add("events/a")
        rig.settle()
        rig.answer(done=True)
        rig.settle()
        if number % 3 == 0:
            rig.restart()
        assert comparable(rig, rig.found()) == comparable(rig, rig.stored())

    assert rig.found().generation == 60
    assert rig.engine.readers.size_of(RECORD) < 5000
    assert rig.engine.readers.find(RECORD, rig.clock.now()).committed.kept.earliest > 0


@pytest.mark.parametrize("phase", [*HOOK_PHASES, *PULL_PHASES])
def test_compaction_keeps_every_phase(phase: Phase) -> None:
    rig = phase(COMPACT_ALWAYS)
    rig.settle()
    before = comparable(rig, rig.found())
    rig.crash()

    assert comparable(rig, rig.found()) == before
    rig.pass_time(2 * LEASE_MS)
    assert comparable(rig, rig.found()) == comparable(rig, rig.stored())
