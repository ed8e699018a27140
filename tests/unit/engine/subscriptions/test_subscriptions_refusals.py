"""When there is no room, on the disk or in memory: what was decided is taken back, and nothing is lost."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from everbrook.engine import SubscriptionsTuning
from everbrook.engine.tuning import DEFAULT_TUNING
from everbrook.protocol import STREAM_ROOT
from everbrook.protocol.errors import Fenced, MemoryFull, SubscriptionNotFound
from everbrook.protocol.subscriptions import Compact
from tests.kit.fakes import LastingStorage
from tests.unit.engine.rig import UNBOUNDED, change_limits
from tests.unit.engine.subscriptions.subscribing import LEASE_MS, SubscribingRig, comparable, hooked_rig

PAUSE_MS = round(DEFAULT_TUNING.subscriptions.refused_secs * 1000)
MISSING_STREAM_MS = DEFAULT_TUNING.subscriptions.missing_stream_ms
COMPACT_ALWAYS = SubscriptionsTuning(compact_at_bytes=-(10**9))


def as_stored(rig: SubscribingRig) -> bool:
    """Tell whether memory says what the storage says."""
    return comparable(rig, rig.found()) == comparable(rig, rig.stored())


def test_a_refused_subscription_never_was() -> None:
    rig = SubscribingRig()
    rig.put("events/a")
    rig.settle()
    rig.hook()
    rig.refuse()

    with pytest.raises(SubscriptionNotFound):
        rig.found()
    rig.add("events/a")
    rig.settle()
    assert rig.sent == []


def test_a_refused_deletion_leaves_the_subscription(hooked: SubscribingRig) -> None:
    hooked.subscriptions.unsubscribe(STREAM_ROOT, "s")
    hooked.refuse()
    hooked.add("events/a")
    hooked.settle()

    assert [sent.generation for sent in hooked.sent] == [1]


def test_a_refused_deletion_in_flight_leaves_the_wake(hooked: SubscribingRig) -> None:
    hooked.add("events/a")
    hooked.settle()
    hooked.answer(taken=False)
    hooked.settle()
    hooked.subscriptions.unsubscribe(STREAM_ROOT, "s")
    hooked.refuse()
    hooked.pass_time(LEASE_MS)

    assert {sent.generation for sent in hooked.sent} == {1}
    assert len(hooked.sent) > 1


def test_a_refused_link_is_none(hooked: SubscribingRig) -> None:
    hooked.put("x")
    hooked.settle()
    hooked.subscriptions.link(STREAM_ROOT, "s", ("x",))
    hooked.refuse()
    hooked.add("x")
    hooked.pass_time(PAUSE_MS)

    assert (hooked.sent, hooked.found().explicit) == ([], set())


def test_a_refused_unlinking_leaves_the_link(hooked: SubscribingRig) -> None:
    hooked.put("x")
    hooked.subscriptions.link(STREAM_ROOT, "s", ("x",))
    hooked.settle()
    hooked.subscriptions.unlink(STREAM_ROOT, "s", "x")
    hooked.refuse()
    hooked.add("x")
    hooked.settle()

    assert [list(sent.wake.tails) for sent in hooked.sent] == [["x"]]


def test_a_refused_append_wakes_nobody(hooked: SubscribingRig) -> None:
    hooked.add("events/a")
    hooked.refuse()
    hooked.pass_time(2 * LEASE_MS)

    assert (hooked.sent, hooked.found().generation) == ([], 0)


def test_a_refused_wake_is_not_sent_and_tried_again_after_a_pause(hooked: SubscribingRig) -> None:
    hooked.add("events/a")
    hooked.let_group_arrive()
    hooked.refuse()
    hooked.pass_time(PAUSE_MS - 1)
    assert (hooked.sent, hooked.found().generation) == ([], 0)
    hooked.pass_time(1)

    assert [sent.generation for sent in hooked.sent] == [1]
    assert as_stored(hooked)


def test_a_full_disk_is_not_tried_again_at_once(hooked: SubscribingRig) -> None:
    hooked.add("events/a")
    hooked.let_group_arrive()
    for _ in range(3):
        hooked.refuse()
        hooked.scheduler.settle()
        assert hooked.engine.last_change == hooked.engine.durable_change
        hooked.clock.micros += PAUSE_MS * 1000
    hooked.pass_time(PAUSE_MS)

    assert [sent.generation for sent in hooked.sent] == [1]


def test_a_refused_wake_event_is_written_after_a_pause(pulled: SubscribingRig) -> None:
    pulled.add("events/a")
    pulled.let_group_arrive()
    pulled.refuse()
    assert pulled.events() == []
    pulled.pass_time(PAUSE_MS)

    assert [event.generation for event in pulled.events()] == [1]


def test_news_that_a_refused_deletion_hid_is_found_again(hooked: SubscribingRig) -> None:
    hooked.add("events/a")
    hooked.let_group_arrive()
    hooked.remove("events/a")
    hooked.refuse()
    hooked.pass_time(PAUSE_MS)

    assert [list(sent.wake.tails) for sent in hooked.sent] == [["events/a"]]


def test_a_refused_claim_leaves_the_wake_to_others(pulled: SubscribingRig) -> None:
    pulled.add("events/a")
    pulled.settle()
    pulled.claim(worker="w1")
    pulled.refuse()

    assert as_stored(pulled)
    assert pulled.claim(worker="w2").holder == "w2"
    pulled.settle()
    pulled.pass_time(LEASE_MS)
    assert [event.generation for event in pulled.events()] == [1, 2]


def test_a_refused_heartbeat_extends_no_lease(pulled: SubscribingRig) -> None:
    pulled.add("events/a")
    pulled.settle()
    wake = pulled.claim()
    pulled.settle()
    pulled.clock.micros += (LEASE_MS - 1) * 1000
    pulled.report("s", ("events/a", 1))
    pulled.refuse()
    pulled.clock.micros += 1000

    with pytest.raises(Fenced):
        pulled.report_on("s", wake.wake_id, 1)
    pulled.pass_time(PAUSE_MS)
    assert [event.generation for event in pulled.events()] == [1, 2]


def test_a_refused_done_leaves_the_lease(pulled: SubscribingRig) -> None:
    pulled.add("events/a")
    pulled.settle()
    pulled.claim()
    pulled.settle()
    pulled.report("s", ("events/a", 1), done=True)
    pulled.refuse()

    assert as_stored(pulled)
    assert not pulled.report("s", ("events/a", 1), done=True)
    pulled.pass_time(2 * LEASE_MS)
    assert [event.generation for event in pulled.events()] == [1]


def test_a_refused_lapse_comes_later(pulled: SubscribingRig) -> None:
    pulled.add("events/a")
    pulled.settle()
    pulled.claim()
    pulled.settle()
    pulled.clock.micros += LEASE_MS * 1000
    pulled.refuse()
    assert pulled.found().generation == 1
    pulled.pass_time(PAUSE_MS)

    assert [event.generation for event in pulled.events()] == [1, 2]


@pytest.mark.parametrize("taken, done", [(True, True), (False, False)])
def test_a_refused_answer_is_given_anew(hooked: SubscribingRig, *, taken: bool, done: bool) -> None:
    hooked.add("events/a")
    hooked.settle()
    hooked.answer(taken=taken, done=done)
    hooked.refuse()
    assert as_stored(hooked)
    hooked.pass_time(PAUSE_MS)
    assert [sent.generation for sent in hooked.sent] == [1, 1]
    hooked.answer(done=True)
    hooked.settle()

    assert (hooked.found().wake, hooked.found().links["events/a"].acked) == (None, 1)


def test_a_refused_compaction_leaves_what_was() -> None:
    rig = hooked_rig(COMPACT_ALWAYS)
    rig.add("events/a")
    rig.let_group_arrive()
    rig.refuse()
    assert as_stored(rig)
    rig.pass_time(PAUSE_MS)

    assert as_stored(rig)
    assert [sent.generation for sent in rig.sent] == [1]


def test_a_refusal_concerns_nobody_else(hooked: SubscribingRig) -> None:
    """What was taken and waits for its callback is not sent again."""
    hooked.put("b")
    hooked.hook("t", "b")
    hooked.settle()
    hooked.add("events/a")
    hooked.settle()
    hooked.answer()
    hooked.settle()
    hooked.add("b")
    hooked.let_group_arrive()
    hooked.refuse()
    hooked.pass_time(PAUSE_MS)

    assert [sent.subscription.id for sent in hooked.sent] == ["s", "t"]


def test_a_wake_that_waits_for_another_change_is_sent_when_that_is_refused(hooked: SubscribingRig) -> None:
    hooked.add("events/a")
    hooked.settle()
    hooked.crash()
    hooked.put("other")
    hooked.refuse()
    hooked.pass_time(PAUSE_MS)

    assert [sent.generation for sent in hooked.sent] == [1, 1]


def test_a_storage_that_failed_is_asked_nothing_more(hooked: SubscribingRig) -> None:
    hooked.add("events/a")
    hooked.settle()
    hooked.put("other")
    hooked.let_group_arrive(OSError("broken"))
    hooked.answer(done=True)
    hooked.pass_time(2 * LEASE_MS)

    assert hooked.engine.failure
    assert [sent.generation for sent in hooked.sent] == [1]
    hooked.crash()
    hooked.settle()
    assert hooked.sent[-1].generation == 1


# Memory


def woken_rig(tuning: SubscriptionsTuning = DEFAULT_TUNING.subscriptions) -> SubscribingRig:
    rig = SubscribingRig(LastingStorage(), tuning=tuning)
    rig.put("events/a")
    rig.hook()
    rig.add("events/a")
    rig.settle()
    return rig


@pytest.fixture
def full() -> SubscribingRig:
    """An engine over memory, with a wake in flight."""
    return woken_rig()


def fill(rig: SubscribingRig, left: int = 0) -> None:
    """Leave so much room in memory."""
    change_limits(rig.engine, replace(UNBOUNDED, max_memory_bytes=rig.storage.used_bytes + left))


def empty(rig: SubscribingRig) -> None:
    """Leave room again."""
    change_limits(rig.engine, UNBOUNDED)


def test_a_lease_lapses_when_there_is_room_to_note_it(full: SubscribingRig) -> None:
    fill(full)
    full.pass_time(2 * LEASE_MS)
    assert full.found().generation == 1
    empty(full)
    full.pass_time(LEASE_MS)

    assert full.sent[-1].generation == 2


def test_an_answer_that_there_is_no_room_for_is_asked_for_again(full: SubscribingRig) -> None:
    fill(full)
    full.answer(done=True)
    assert full.found().wake is not None
    empty(full)
    full.pass_time(LEASE_MS)
    full.answer(done=True)

    assert [sent.generation for sent in full.sent] == [1, 2]
    assert full.found().wake is None


def test_a_wake_comes_when_there_is_room_for_it(full: SubscribingRig) -> None:
    full.answer(done=True)
    full.add("events/a")
    fill(full)
    full.pass_time(MISSING_STREAM_MS)
    assert full.found().generation == 1
    empty(full)
    full.pass_time(MISSING_STREAM_MS)

    assert full.sent[-1].generation == 2


def test_a_worker_is_told_that_there_is_no_room(full: SubscribingRig) -> None:
    fill(full)
    with pytest.raises(MemoryFull):
        full.report("s", ("events/a", 1), done=True)
    empty(full)

    assert not full.report("s", ("events/a", 1), done=True)


Step = Callable[[SubscribingRig], object]
STEPS: list[Step] = [
    lambda rig: rig.report("s", ("events/a", 1), done=True),
    lambda rig: rig.subscriptions.link(STREAM_ROOT, "s", ("x",)),
    lambda rig: rig.answer(done=True),
    lambda rig: rig.pass_time(LEASE_MS),
]


@pytest.mark.parametrize("step", STEPS)
def test_a_compaction_that_there_is_no_room_for_comes_another_time(step: Step) -> None:
    rig, refused = woken_rig(COMPACT_ALWAYS), []
    execute: Callable[[Any], Any] = rig.engine.execute

    def refuse_to_compact(command: object) -> object:
        if isinstance(command, Compact):
            refused.append(command)
            raise MemoryFull("no room")
        return execute(command)

    with patch.object(rig.engine, "execute", refuse_to_compact):
        step(rig)
    assert refused
    assert as_stored(rig)
    rig.add("events/a")
    rig.pass_time(2 * LEASE_MS)

    assert rig.sent[-1].generation > 1
    assert as_stored(rig)
    rig.subscriptions.unsubscribe(STREAM_ROOT, "s")
