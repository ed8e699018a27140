"""Pull-wake subscriptions at work: wakes are told in a stream, workers race for them (§7.2)."""

import pytest

from everbrook.engine import SubscriptionsTuning
from everbrook.protocol import STREAM_ROOT, Append
from everbrook.protocol.errors import AlreadyClaimed, Fenced, NoPendingWork
from tests.unit.engine.rig import JSON
from tests.unit.engine.subscriptions.subscribing import LEASE_MS, SubscribingRig, WakeEvent, name_of

MISSING_STREAM_MS = SubscriptionsTuning().missing_stream_ms


def told(rig: SubscribingRig) -> list[int]:
    """Give the generations that the wake stream tells of."""
    return [event.generation for event in rig.events()]


def test_a_wake_is_told_when_the_append_is_durable(pulled: SubscribingRig) -> None:
    """§7.2: the wake event."""
    pulled.add("events/a")
    pulled.scheduler.settle()
    assert pulled.found().generation == 0

    pulled.settle()
    assert pulled.events() == [WakeEvent("wake", "s", "events/a", 1, pulled.clock.now())]


def test_a_wake_and_its_event_are_durable_together(pulled: SubscribingRig) -> None:
    pulled.add("events/a")
    pulled.let_group_arrive()
    pulled.scheduler.settle()
    assert (pulled.found().generation, pulled.events()) == (1, [])
    pulled.let_group_arrive()

    assert len(pulled.events()) == 1
    assert pulled.stored() == pulled.found()


def test_a_wake_is_told_once_however_much_arrives(pulled: SubscribingRig) -> None:
    """§7: unless the subscription already has a wake in flight or a worker lease is held."""
    for _ in range(3):
        pulled.add("events/a")
        pulled.settle()
    pulled.claim()
    pulled.add("events/a")
    pulled.settle()

    assert told(pulled) == [1]


def test_an_append_wakes_if_a_close_is_durable_with_it(pulled: SubscribingRig) -> None:
    pulled.add("events/a")
    pulled.engine.execute(Append(name_of("events/a"), pulled.clock.now(), close=True))
    pulled.settle()

    assert told(pulled) == [1]


def test_an_unclaimed_wake_waits_for_ever(pulled: SubscribingRig) -> None:
    """§7.3: the lease starts when a worker claims."""
    pulled.add("events/a")
    pulled.pass_time(100 * LEASE_MS)

    assert told(pulled) == [1]
    assert pulled.claim().tails["events/a"].acked == 1


def test_one_worker_gets_the_lease(pulled: SubscribingRig) -> None:
    """§7.2: `ALREADY_CLAIMED`."""
    pulled.add("events/a")
    pulled.settle()
    pulled.claim(worker="w1")

    with pytest.raises(AlreadyClaimed) as refusal:
        pulled.claim(worker="w2")
    assert (refusal.value.holder, refusal.value.generation) == ("w1", 1)


def test_a_worker_is_told_of_what_came_after_the_wake(pulled: SubscribingRig) -> None:
    pulled.add("events/a")
    pulled.settle()
    pulled.put("events/b", b"12")
    pulled.settle()

    assert {path: link.acked for path, link in pulled.claim().tails.items()} == {"events/a": 1, "events/b": 2}


def test_nothing_is_claimed_when_everything_is_done(pulled: SubscribingRig) -> None:
    with pytest.raises(NoPendingWork):
        pulled.claim()


def test_done_tells_whether_another_wake_follows_and_writes_it(pulled: SubscribingRig) -> None:
    """§7.2: `next_wake`."""
    pulled.add("events/a")
    pulled.settle()
    pulled.claim()
    pulled.add("events/a")
    pulled.settle()

    assert pulled.report("s", ("events/a", 1), done=True)
    pulled.settle()
    assert told(pulled) == [1, 2]
    pulled.claim()
    assert not pulled.report("s", ("events/a", 2), done=True)


def test_a_release_is_followed_by_another_wake(pulled: SubscribingRig) -> None:
    """§7.2: if pending work remains after release, the server writes another wake event."""
    pulled.add("events/a")
    pulled.settle()
    pulled.claim()
    pulled.report(done=True)
    pulled.settle()

    assert told(pulled) == [1, 2]


def test_a_lease_that_has_run_out_is_followed_by_another_wake(pulled: SubscribingRig) -> None:
    """§7.3: the holder is cleared, another wake is scheduled."""
    pulled.add("events/a")
    pulled.settle()
    stale = pulled.claim()
    pulled.pass_time(LEASE_MS)

    assert told(pulled) == [1, 2]
    with pytest.raises(Fenced):
        pulled.report_on("s", stale.wake_id, 1, ("events/a", 1))
    assert pulled.claim(worker="w2").holder == "w2"
    with pytest.raises(Fenced):
        pulled.report_on("s", stale.wake_id, 2, ("events/a", 1))


def test_a_heartbeat_extends_the_lease(pulled: SubscribingRig) -> None:
    """§7.2: an ack without `done`."""
    pulled.add("events/a")
    pulled.settle()
    pulled.claim()
    pulled.pass_time(LEASE_MS - 1)
    pulled.report()
    pulled.pass_time(LEASE_MS - 1)
    assert told(pulled) == [1]

    pulled.pass_time(1)
    assert told(pulled) == [1, 2]


def test_a_worker_may_come_before_the_wake(pulled: SubscribingRig) -> None:
    pulled.add("events/a")
    pulled.let_group_arrive()
    pulled.claim()
    pulled.settle()

    assert (told(pulled), pulled.found().generation) == ([], 1)


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


def test_a_wake_whose_stream_is_closed_waits_for_another_one(pulled: SubscribingRig) -> None:
    pulled.engine.execute(Append(name_of("wake"), pulled.clock.now(), JSON, close=True))
    pulled.add("events/a")
    pulled.pass_time(3 * MISSING_STREAM_MS)
    assert pulled.found().generation == 0
    pulled.remove("wake")
    pulled.put_wake_stream()
    pulled.pass_time(MISSING_STREAM_MS)

    assert told(pulled) == [1]


def test_without_a_wake_stream_the_work_can_still_be_claimed(pulled: SubscribingRig) -> None:
    pulled.remove("wake")
    pulled.add("events/a")
    pulled.settle()

    assert pulled.claim().tails["events/a"].acked == 1
    pulled.pass_time(LEASE_MS)
    assert pulled.found().wake is None


def test_a_wake_stream_that_was_created_again_is_told_of_what_waits(pulled: SubscribingRig) -> None:
    pulled.add("events/a")
    pulled.settle()
    pulled.remove("wake")
    pulled.put_wake_stream()
    pulled.pass_time(MISSING_STREAM_MS)

    assert told(pulled) == [2]


@pytest.mark.parametrize("lost", ["refused", "crashed"])
def test_that_it_must_be_told_again_is_not_forgotten(pulled: SubscribingRig, lost: str) -> None:
    """What is told in a stream that is gone is told nowhere."""
    pulled.add("events/a")
    pulled.settle()
    pulled.remove("wake")
    pulled.let_group_arrive()
    if lost == "refused":
        pulled.refuse()
    else:
        pulled.crash()
    pulled.put_wake_stream()
    pulled.pass_time(2 * MISSING_STREAM_MS)

    assert told(pulled) == [2]


def test_a_wake_that_is_still_told_is_not_told_again_at_a_start(pulled: SubscribingRig) -> None:
    pulled.add("events/a")
    pulled.settle()
    pulled.restart()
    pulled.pass_time(2 * LEASE_MS)

    assert told(pulled) == [1]


@pytest.mark.parametrize("event", ["nothing", "a start", "a link"])
def test_nothing_keeps_a_wake_from_waiting_for_its_stream(pulled: SubscribingRig, event: str) -> None:
    pulled.remove("wake")
    pulled.add("events/a")
    pulled.settle()
    if event == "a start":
        pulled.restart()
    elif event == "a link":
        pulled.subscriptions.link(STREAM_ROOT, "s", ("x",))
    pulled.put_wake_stream()
    pulled.pass_time(MISSING_STREAM_MS)

    assert told(pulled) == [1]


def test_a_lease_outlives_its_wake_stream(pulled: SubscribingRig) -> None:
    pulled.add("events/a")
    pulled.settle()
    pulled.claim()
    pulled.remove("wake")
    pulled.put_wake_stream()
    pulled.settle()

    assert not pulled.report("s", ("events/a", 1), done=True)


def test_a_wake_for_a_stream_that_is_gone_does_not_stand_in_the_way(pulled: SubscribingRig) -> None:
    """§7: later news creates a new wake generation."""
    pulled.add("events/a")
    pulled.settle()
    pulled.remove("events/a")
    pulled.settle()
    with pytest.raises(NoPendingWork):
        pulled.claim()
    pulled.put("events/b", b"1")
    pulled.settle()

    assert told(pulled) == [1, 2]


def test_a_wake_for_a_stream_that_is_linked_no_more_does_not_stand_in_the_way(pulled: SubscribingRig) -> None:
    pulled.put("x")
    pulled.subscriptions.link(STREAM_ROOT, "s", ("x",))
    pulled.settle()
    pulled.add("x")
    pulled.settle()
    pulled.subscriptions.unlink(STREAM_ROOT, "s", "x")
    with pytest.raises(NoPendingWork):
        pulled.claim()
    pulled.add("events/a")
    pulled.settle()

    assert told(pulled) == [1, 2]


def test_the_wake_stream_wakes_only_others() -> None:
    rig = SubscribingRig()
    rig.put_wake_stream()
    rig.pull("s", "**")
    rig.hook("t", "wake")
    rig.put("a", b"1")
    rig.pass_time(LEASE_MS // 2)

    assert told(rig) == [1]
    assert [list(sent.wake.tails) for sent in rig.sent] == [["wake"]]
