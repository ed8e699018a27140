"""Webhook subscriptions at work: appends wake them, receivers answer (§7.1)."""

import pytest

from everbrook.engine import SubscriptionsTuning
from everbrook.engine.subscriptions.index import record_name
from everbrook.protocol import STREAM_ROOT
from everbrook.protocol.errors import Fenced, NoPendingWork, SubscriptionExists, SubscriptionNotFound
from everbrook.protocol.subscriptions import BEFORE_FIRST, Config
from tests.unit.engine.subscriptions.subscribing import LEASE_MS, SubscribingRig, comparable


@pytest.fixture
def rig() -> SubscribingRig:
    """An engine with a webhook subscription `s` to the empty stream `events/a`."""
    rig = SubscribingRig()
    rig.put("events/a")
    rig.hook()
    rig.settle()
    return rig


def generations(rig: SubscribingRig) -> list[int]:
    """Give the generations that were sent, in order."""
    return [sent.generation for sent in rig.sent]


def test_no_wake_is_sent_before_the_append_and_the_wake_are_durable(rig: SubscribingRig) -> None:
    """§7: pending work is what readers can read."""
    rig.add("events/a")
    rig.scheduler.settle()
    assert rig.found().generation == 0

    rig.let_group_arrive()
    rig.scheduler.settle()
    assert (rig.found().generation, rig.sent) == (1, [])

    rig.let_group_arrive()
    assert generations(rig) == [1]
    assert {path: link.acked for path, link in rig.sent[0].wake.tails.items()} == {"events/a": 1}


def test_one_wake_is_in_flight_however_much_arrives(rig: SubscribingRig) -> None:
    """§7: unless the subscription already has a wake in flight."""
    for _ in range(3):
        rig.add("events/a")
        rig.settle()
    rig.answer()
    rig.settle()

    assert generations(rig) == [1]


def test_what_came_while_a_receiver_was_busy_wakes_it_again_when_it_is_done(rig: SubscribingRig) -> None:
    """§7.1: with a new wake id and generation."""
    rig.add("events/a")
    rig.settle()
    rig.add("events/a")
    rig.settle()
    rig.answer(done=True)
    rig.settle()

    assert generations(rig) == [1, 2]
    assert rig.sent[0].wake.wake_id != rig.sent[1].wake.wake_id
    assert (rig.found().links["events/a"].acked, rig.sent[1].wake.tails["events/a"].acked) == (1, 2)


def test_a_receiver_that_has_done_everything_is_left_in_peace(rig: SubscribingRig) -> None:
    rig.pass_time(10 * LEASE_MS)
    idle = rig.scheduler.timers
    rig.add("events/a")
    rig.settle()
    rig.answer(done=True)
    rig.pass_time(10 * LEASE_MS)

    assert generations(rig) == [1]
    assert rig.scheduler.timers == idle


def test_a_callback_tells_whether_another_wake_follows(rig: SubscribingRig) -> None:
    """§7.1: `next_wake`."""
    rig.add("events/a")
    rig.settle()
    rig.answer()
    rig.add("events/a")
    rig.settle()

    assert rig.report("s", ("events/a", 1), done=True)
    rig.settle()
    assert not rig.report("s", ("events/a", 2))
    assert not rig.report(done=True)
    assert generations(rig) == [1, 2]


def test_a_callback_that_comes_before_the_answer_ends_the_wake(rig: SubscribingRig) -> None:
    rig.add("events/a")
    rig.settle()
    rig.report("s", ("events/a", 1), done=True)
    rig.settle()
    rig.answer(done=True)
    rig.add("events/a")
    rig.settle()

    assert generations(rig) == [1, 2]
    assert rig.found().links["events/a"].acked == 1


def test_a_lease_that_has_run_out_begins_a_new_generation(rig: SubscribingRig) -> None:
    """§7.3: if pending work remains, it schedules another wake."""
    rig.add("events/a")
    rig.settle()
    rig.answer()
    first = rig.sent[0]
    rig.pass_time(LEASE_MS - 1)
    assert generations(rig) == [1]
    rig.pass_time(1)

    assert generations(rig) == [1, 2]
    with pytest.raises(Fenced):
        rig.report_on("s", first.wake.wake_id, 1, ("events/a", 1), done=True)


def test_a_callback_extends_the_lease(rig: SubscribingRig) -> None:
    """§7.3: it is extended by valid callbacks."""
    rig.add("events/a")
    rig.settle()
    rig.answer()
    rig.pass_time(LEASE_MS - 1)
    rig.report()
    rig.pass_time(LEASE_MS - 1)
    assert generations(rig) == [1]

    rig.pass_time(1)
    assert generations(rig) == [1, 2]


def test_the_streams_of_a_wake_are_bounded_and_the_others_come_next() -> None:
    rig = SubscribingRig(tuning=SubscriptionsTuning(max_wake_streams=2))
    rig.hook()
    for name in "abcde":
        rig.put(f"events/{name}", b"x")
    rig.settle()
    for _ in range(3):
        rig.answer(done=True)
        rig.settle()

    assert [sorted(sent.wake.tails) for sent in rig.sent] == [
        ["events/a", "events/b"],
        ["events/c", "events/d"],
        ["events/e"],
    ]


def acked_at_once() -> SubscribingRig:
    """Have many streams with news, of which a worker says in one report that it knew of them."""
    rig = SubscribingRig(tuning=SubscriptionsTuning(max_wake_streams=2))
    rig.put_wake_stream()
    rig.pull()
    for name in "abcdefghij":
        rig.put(f"events/{name}", b"x")
    rig.settle()
    rig.claim()
    rig.report("s", *((f"events/{name}", 1) for name in "abcdefghij"), done=True)
    return rig


def test_a_claim_looks_at_no_more_streams_than_a_wake_names() -> None:
    rig = acked_at_once()

    assert rig.subscriptions.claim(STREAM_ROOT, "s", "w1") is None
    with pytest.raises(NoPendingWork):
        rig.claim()


def test_streams_that_have_no_news_any_more_are_looked_at_in_several_turns() -> None:
    rig = acked_at_once()
    generation, turns = rig.found().generation, 0
    rig.add("events/j")
    while rig.found().generation == generation and rig.scheduler.run_soon():
        turns += 1

    assert turns > 2


def test_a_busy_stream_does_not_keep_others_waiting() -> None:
    rig = SubscribingRig(tuning=SubscriptionsTuning(max_wake_streams=1))
    rig.hook()
    rig.put("events/a", b"x")
    rig.put("events/b", b"x")
    rig.settle()
    for _ in range(3):
        rig.add("events/a")
        rig.settle()
        rig.answer(done=True)
        rig.settle()

    assert "events/b" in {path for sent in rig.sent for path in sent.wake.tails}


def test_sixty_four_are_woken_in_a_turn() -> None:
    rig = SubscribingRig()
    rig.put("events/a")
    for number in range(150):
        rig.hook(f"s{number}")
    rig.settle()
    rig.add("events/a")
    rig.let_group_arrive()

    woken: list[int] = []
    while len(woken) < 4:
        rig.scheduler.run_soon()
        woken.append(sum(rig.found(f"s{number}").generation for number in range(150)))
    assert woken == [64, 128, 150, 150]


def test_a_subscription_is_found_again_or_refused(rig: SubscribingRig) -> None:
    """§6.2: 200 and 409."""
    same = Config("webhook", "events/*", (), "https://worker.example/hook", lease_ttl_ms=LEASE_MS)

    assert rig.subscribe("s", same) == (rig.found(), False)
    with pytest.raises(SubscriptionExists):
        rig.hook(pattern="other/*")


def test_explicit_links_come_and_go(rig: SubscribingRig) -> None:
    """§6.4: explicit stream membership."""
    rig.put("x", b"old")
    rig.subscriptions.link(STREAM_ROOT, "s", ("x",))
    rig.settle()
    assert rig.sent == []

    rig.add("x")
    rig.settle()
    rig.answer(done=True)
    rig.subscriptions.unlink(STREAM_ROOT, "s", "x")
    rig.add("x")
    rig.settle()
    assert [list(sent.wake.tails) for sent in rig.sent] == [["x"]]


def test_linking_what_the_pattern_links_loses_no_news(rig: SubscribingRig) -> None:
    """§6.4: adding an already-linked stream is idempotent."""
    rig.put("events/b", b"x")
    rig.let_group_arrive()
    rig.subscriptions.link(STREAM_ROOT, "s", ("events/b",))
    rig.settle()

    assert [list(sent.wake.tails) for sent in rig.sent] == [["events/b"]]


def test_a_stream_that_is_linked_no_more_is_not_woken_for(rig: SubscribingRig) -> None:
    rig.put("x")
    rig.subscriptions.link(STREAM_ROOT, "s", ("x",))
    rig.settle()
    rig.add("x")
    rig.settle()
    rig.subscriptions.unlink(STREAM_ROOT, "s", "x")
    rig.report(done=True)
    rig.pass_time(3 * LEASE_MS)

    assert generations(rig) == [1]


def test_unlinking_what_is_not_linked_changes_nothing(rig: SubscribingRig) -> None:
    rig.subscriptions.unlink(STREAM_ROOT, "s", "x")

    assert rig.engine.last_change == rig.engine.durable_change


def test_a_deleted_subscription_is_gone(rig: SubscribingRig) -> None:
    """§6.3: requests for a deleted subscription fail."""
    rig.subscriptions.unsubscribe(STREAM_ROOT, "s")
    rig.settle()

    for speak in (rig.found, rig.report_nothing, lambda: rig.subscriptions.unsubscribe(STREAM_ROOT, "s")):
        with pytest.raises(SubscriptionNotFound, match="'s'"):
            speak()
    rig.add("events/a")
    rig.settle()
    assert rig.sent == []


def test_the_answer_to_a_deleted_subscription_is_not_taken_for_its_successor(rig: SubscribingRig) -> None:
    """§6.3: must not advance cursors."""
    rig.add("events/a")
    rig.settle()
    old = rig.sent[0]
    rig.subscriptions.unsubscribe(STREAM_ROOT, "s")
    rig.hook()
    rig.settle()
    rig.add("events/a")
    rig.settle()
    rig.answer(old, done=True)
    rig.settle()

    assert generations(rig) == [1, 1]
    assert rig.found().links["events/a"].acked == 1


def test_a_stream_that_was_created_again_begins_anew(rig: SubscribingRig) -> None:
    rig.add("events/a", b"123")
    rig.settle()
    rig.answer(done=True)
    rig.remove("events/a")
    rig.put("events/a", b"1")
    rig.settle()

    assert generations(rig) == [1, 2]
    assert rig.found().acked("events/a", rig.sent[1].wake.tails["events/a"].incarnation) == BEFORE_FIRST


def test_a_link_to_a_stream_created_again_at_once_is_to_the_new_one(rig: SubscribingRig) -> None:
    rig.put("x", b"1")
    rig.settle()
    rig.remove("x")
    rig.put("x", b"12")
    rig.subscriptions.link(STREAM_ROOT, "s", ("x",))
    rig.settle()

    assert (rig.found().links["x"].acked, rig.sent) == (2, [])
    assert comparable(rig, rig.found()) == comparable(rig, rig.stored())


def test_a_fork_with_a_past_is_news(rig: SubscribingRig) -> None:
    """§7: its tail is greater than its ack."""
    rig.put("other", b"123")
    rig.fork(b"/v1/stream/events/fork", b"/v1/stream/other")
    rig.settle()

    assert [list(sent.wake.tails) for sent in rig.sent] == [["events/fork"]]


def test_a_record_is_out_of_reach_of_every_pattern(rig: SubscribingRig) -> None:
    rig.hook("all", "**")
    rig.settle()
    rig.add("events/a")
    rig.settle()

    assert {path for sent in rig.sent for path in sent.wake.tails} == {"events/a"}
    assert rig.engine.exists(record_name(STREAM_ROOT, "all"))


def test_what_is_closed_times_nothing(rig: SubscribingRig) -> None:
    idle = rig.scheduler.timers
    rig.add("events/a")
    rig.settle()
    assert rig.scheduler.timers == idle + 1
    rig.subscriptions.close()

    assert rig.scheduler.timers == idle
