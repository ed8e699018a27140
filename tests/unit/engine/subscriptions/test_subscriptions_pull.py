"""Pull-wake subscriptions at work: wakes are told in a stream, workers race for them (§7.2)."""

import pytest

from everbrook.engine import SubscriptionsTuning
from everbrook.protocol import STREAM_ROOT, Append
from everbrook.protocol.errors import AlreadyClaimed, Fenced, NoPendingWork
from tests.unit.engine.rig import JSON
from tests.unit.engine.subscriptions.subscribing import LEASE_MS, SubscribingRig, WakeEvent, name_of

MISSING_STREAM_MS = SubscriptionsTuning().missing_stream_ms


@pytest.fixture
def rig() -> SubscribingRig:
    """An engine with a pull-wake subscription `s` to the empty stream `events/a`."""
    rig = SubscribingRig()
    rig.put_wake_stream()
    rig.put("events/a")
    rig.pull()
    rig.settle()
    return rig


def told(rig: SubscribingRig) -> list[int]:
    """Give the generations that the wake stream tells of."""
    return [event.generation for event in rig.events()]


def test_a_wake_is_told_when_the_append_is_durable(rig: SubscribingRig) -> None:
    """§7.2: the wake event."""
    rig.add("events/a")
    rig.scheduler.settle()
    assert rig.found().generation == 0

    rig.settle()
    assert rig.events() == [WakeEvent("wake", "s", "events/a", 1, rig.clock.now())]


def test_a_wake_and_its_event_are_durable_together(rig: SubscribingRig) -> None:
    rig.add("events/a")
    rig.let_group_arrive()
    rig.scheduler.settle()
    assert (rig.found().generation, rig.events()) == (1, [])
    rig.let_group_arrive()

    assert len(rig.events()) == 1
    assert rig.stored() == rig.found()


def test_a_wake_is_told_once_however_much_arrives(rig: SubscribingRig) -> None:
    """§7: unless the subscription already has a wake in flight or a worker lease is held."""
    for _ in range(3):
        rig.add("events/a")
        rig.settle()
    rig.claim()
    rig.add("events/a")
    rig.settle()

    assert told(rig) == [1]


def test_an_unclaimed_wake_waits_for_ever(rig: SubscribingRig) -> None:
    """§7.3: the lease starts when a worker claims."""
    rig.add("events/a")
    rig.pass_time(100 * LEASE_MS)

    assert told(rig) == [1]
    assert rig.claim().tails["events/a"].acked == 1


def test_one_worker_gets_the_lease(rig: SubscribingRig) -> None:
    """§7.2: `ALREADY_CLAIMED`."""
    rig.add("events/a")
    rig.settle()
    rig.claim(worker="w1")

    with pytest.raises(AlreadyClaimed) as refusal:
        rig.claim(worker="w2")
    assert (refusal.value.holder, refusal.value.generation) == ("w1", 1)


def test_a_worker_is_told_of_what_came_after_the_wake(rig: SubscribingRig) -> None:
    rig.add("events/a")
    rig.settle()
    rig.put("events/b", b"12")
    rig.settle()

    assert {path: link.acked for path, link in rig.claim().tails.items()} == {"events/a": 1, "events/b": 2}


def test_nothing_is_claimed_when_everything_is_done(rig: SubscribingRig) -> None:
    with pytest.raises(NoPendingWork):
        rig.claim()


def test_done_tells_whether_another_wake_follows_and_writes_it(rig: SubscribingRig) -> None:
    """§7.2: `next_wake`."""
    rig.add("events/a")
    rig.settle()
    rig.claim()
    rig.add("events/a")
    rig.settle()

    assert rig.report("s", ("events/a", 1), done=True)
    rig.settle()
    assert told(rig) == [1, 2]
    rig.claim()
    assert not rig.report("s", ("events/a", 2), done=True)


def test_a_release_is_followed_by_another_wake(rig: SubscribingRig) -> None:
    """§7.2: if pending work remains after release, the server writes another wake event."""
    rig.add("events/a")
    rig.settle()
    rig.claim()
    rig.report(done=True)
    rig.settle()

    assert told(rig) == [1, 2]


def test_a_lease_that_has_run_out_is_followed_by_another_wake(rig: SubscribingRig) -> None:
    """§7.3: the holder is cleared, another wake is scheduled."""
    rig.add("events/a")
    rig.settle()
    stale = rig.claim()
    rig.pass_time(LEASE_MS)

    assert told(rig) == [1, 2]
    with pytest.raises(Fenced):
        rig.report_on("s", stale.wake_id, 1, ("events/a", 1))
    assert rig.claim(worker="w2").holder == "w2"
    with pytest.raises(Fenced):
        rig.report_on("s", stale.wake_id, 2, ("events/a", 1))


def test_a_heartbeat_extends_the_lease(rig: SubscribingRig) -> None:
    """§7.2: an ack without `done`."""
    rig.add("events/a")
    rig.settle()
    rig.claim()
    rig.pass_time(LEASE_MS - 1)
    rig.report()
    rig.pass_time(LEASE_MS - 1)
    assert told(rig) == [1]

    rig.pass_time(1)
    assert told(rig) == [1, 2]


def test_a_worker_may_come_before_the_wake(rig: SubscribingRig) -> None:
    rig.add("events/a")
    rig.let_group_arrive()
    rig.claim()
    rig.settle()

    assert (told(rig), rig.found().generation) == ([], 1)


def test_a_wake_waits_for_its_stream_to_be_created() -> None:
    """§7.2: the wake stream is created explicitly by the application."""
    rig = SubscribingRig()
    rig.pull()
    rig.put("events/a", b"1")
    rig.pass_time(3 * MISSING_STREAM_MS)
    assert rig.found().generation == 0
    rig.put_wake_stream()
    rig.pass_time(MISSING_STREAM_MS)

    assert told(rig) == [1]


def test_a_wake_whose_stream_is_closed_waits_for_another_one(rig: SubscribingRig) -> None:
    rig.engine.execute(Append(name_of("wake"), rig.clock.now(), JSON, close=True))
    rig.add("events/a")
    rig.pass_time(3 * MISSING_STREAM_MS)
    assert rig.found().generation == 0
    rig.remove("wake")
    rig.put_wake_stream()
    rig.pass_time(MISSING_STREAM_MS)

    assert told(rig) == [1]


def test_without_a_wake_stream_the_work_can_still_be_claimed(rig: SubscribingRig) -> None:
    rig.remove("wake")
    rig.add("events/a")
    rig.settle()

    assert rig.claim().tails["events/a"].acked == 1
    rig.pass_time(LEASE_MS)
    assert rig.found().wake is None


def test_a_wake_stream_that_was_created_again_is_told_of_what_waits(rig: SubscribingRig) -> None:
    rig.add("events/a")
    rig.settle()
    rig.remove("wake")
    rig.put_wake_stream()
    rig.pass_time(MISSING_STREAM_MS)

    assert told(rig) == [2]


@pytest.mark.parametrize("lost", ["refused", "crashed"])
def test_that_it_must_be_told_again_is_not_forgotten(rig: SubscribingRig, lost: str) -> None:
    """What is told in a stream that is gone is told nowhere."""
    rig.add("events/a")
    rig.settle()
    rig.remove("wake")
    rig.let_group_arrive()
    if lost == "refused":
        rig.refuse()
    else:
        rig.crash()
    rig.put_wake_stream()
    rig.pass_time(2 * MISSING_STREAM_MS)

    assert told(rig) == [2]


def test_a_wake_that_is_still_told_is_not_told_again_at_a_start(rig: SubscribingRig) -> None:
    rig.add("events/a")
    rig.settle()
    rig.restart()
    rig.pass_time(2 * LEASE_MS)

    assert told(rig) == [1]


@pytest.mark.parametrize("event", ["nothing", "a start", "a link"])
def test_nothing_keeps_a_wake_from_waiting_for_its_stream(rig: SubscribingRig, event: str) -> None:
    rig.remove("wake")
    rig.add("events/a")
    rig.settle()
    if event == "a start":
        rig.restart()
    elif event == "a link":
        rig.subscriptions.link(STREAM_ROOT, "s", ("x",))
    rig.put_wake_stream()
    rig.pass_time(MISSING_STREAM_MS)

    assert told(rig) == [1]


def test_a_lease_outlives_its_wake_stream(rig: SubscribingRig) -> None:
    rig.add("events/a")
    rig.settle()
    rig.claim()
    rig.remove("wake")
    rig.put_wake_stream()
    rig.settle()

    assert not rig.report("s", ("events/a", 1), done=True)


def test_a_wake_for_a_stream_that_is_gone_does_not_stand_in_the_way(rig: SubscribingRig) -> None:
    """§7: later news creates a new wake generation."""
    rig.add("events/a")
    rig.settle()
    rig.remove("events/a")
    rig.settle()
    with pytest.raises(NoPendingWork):
        rig.claim()
    rig.put("events/b", b"1")
    rig.settle()

    assert told(rig) == [1, 2]


def test_a_wake_for_a_stream_that_is_linked_no_more_does_not_stand_in_the_way(rig: SubscribingRig) -> None:
    rig.put("x")
    rig.subscriptions.link(STREAM_ROOT, "s", ("x",))
    rig.settle()
    rig.add("x")
    rig.settle()
    rig.subscriptions.unlink(STREAM_ROOT, "s", "x")
    with pytest.raises(NoPendingWork):
        rig.claim()
    rig.add("events/a")
    rig.settle()

    assert told(rig) == [1, 2]


def test_the_wake_stream_wakes_only_others() -> None:
    rig = SubscribingRig()
    rig.put_wake_stream()
    rig.pull("s", "**")
    rig.hook("t", "wake")
    rig.put("a", b"1")
    rig.pass_time(LEASE_MS // 2)

    assert told(rig) == [1]
    assert [list(sent.wake.tails) for sent in rig.sent] == [["wake"]]
