"""Webhook subscriptions at work: appends wake them, receivers answer (§7.1)."""

import pytest

from everbrook.engine import SubscriptionsTuning
from everbrook.engine.subscriptions.index import record_name
from everbrook.protocol import STREAM_ROOT
from everbrook.protocol.errors import Fenced, NoPendingWork, SubscriptionExists, SubscriptionNotFound
from everbrook.protocol.subscriptions import BEFORE_FIRST, Config
from tests.unit.engine.subscriptions.subscribing import LEASE_MS, SubscribingRig, comparable, generations


def test_no_wake_is_sent_before_the_append_and_the_wake_are_durable(hooked: SubscribingRig) -> None:
    """§7: pending work is what readers can read."""
    hooked.add("events/a")
    hooked.scheduler.settle()
    assert hooked.found().generation == 0

    hooked.let_group_arrive()
    hooked.scheduler.settle()
    assert (hooked.found().generation, hooked.sent) == (1, [])

    hooked.let_group_arrive()
    assert generations(hooked) == [1]
    assert {path: link.acked for path, link in hooked.sent[0].wake.tails.items()} == {"events/a": 1}


def test_one_wake_is_in_flight_however_much_arrives(hooked: SubscribingRig) -> None:
    """§7: unless the subscription already has a wake in flight."""
    for _ in range(3):
        hooked.add("events/a")
        hooked.settle()
    hooked.answer()
    hooked.settle()

    assert generations(hooked) == [1]


def test_what_came_while_a_receiver_was_busy_wakes_it_again_when_it_is_done(hooked: SubscribingRig) -> None:
    """§7.1: with a new wake id and generation."""
    hooked.add("events/a")
    hooked.settle()
    hooked.add("events/a")
    hooked.settle()
    hooked.answer(done=True)
    hooked.settle()

    assert generations(hooked) == [1, 2]
    assert hooked.sent[0].wake.wake_id != hooked.sent[1].wake.wake_id
    assert (hooked.found().links["events/a"].acked, hooked.sent[1].wake.tails["events/a"].acked) == (1, 2)


def test_a_receiver_that_has_done_everything_is_left_in_peace(hooked: SubscribingRig) -> None:
    hooked.pass_time(10 * LEASE_MS)
    idle = hooked.scheduler.timers
    hooked.add("events/a")
    hooked.settle()
    hooked.answer(done=True)
    hooked.pass_time(10 * LEASE_MS)

    assert generations(hooked) == [1]
    assert hooked.scheduler.timers == idle


def test_a_callback_tells_whether_another_wake_follows(hooked: SubscribingRig) -> None:
    """§7.1: `next_wake`."""
    hooked.add("events/a")
    hooked.settle()
    hooked.answer()
    hooked.add("events/a")
    hooked.settle()

    assert hooked.report("s", ("events/a", 1), done=True)
    hooked.settle()
    assert not hooked.report("s", ("events/a", 2))
    assert not hooked.report(done=True)
    assert generations(hooked) == [1, 2]


def test_a_callback_that_comes_before_the_answer_ends_the_wake(hooked: SubscribingRig) -> None:
    hooked.add("events/a")
    hooked.settle()
    hooked.report("s", ("events/a", 1), done=True)
    hooked.settle()
    hooked.answer(done=True)
    hooked.add("events/a")
    hooked.settle()

    assert generations(hooked) == [1, 2]
    assert hooked.found().links["events/a"].acked == 1


def test_a_lease_that_has_run_out_begins_a_new_generation(hooked: SubscribingRig) -> None:
    """§7.3: if pending work remains, it schedules another wake."""
    hooked.add("events/a")
    hooked.settle()
    hooked.answer()
    first = hooked.sent[0]
    hooked.pass_time(LEASE_MS - 1)
    assert generations(hooked) == [1]
    hooked.pass_time(1)

    assert generations(hooked) == [1, 2]
    with pytest.raises(Fenced):
        hooked.report_on("s", first.wake.wake_id, 1, ("events/a", 1), done=True)


def test_a_callback_extends_the_lease(hooked: SubscribingRig) -> None:
    """§7.3: it is extended by valid callbacks."""
    hooked.add("events/a")
    hooked.settle()
    hooked.answer()
    hooked.pass_time(LEASE_MS - 1)
    hooked.report()
    hooked.pass_time(LEASE_MS - 1)
    assert generations(hooked) == [1]

    hooked.pass_time(1)
    assert generations(hooked) == [1, 2]


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


def test_a_subscription_is_found_again_or_refused(hooked: SubscribingRig) -> None:
    """§6.2: 200 and 409."""
    same = Config("webhook", "events/*", (), "https://worker.example/hook", lease_ttl_ms=LEASE_MS)

    assert hooked.subscribe("s", same) == (hooked.found(), False)
    with pytest.raises(SubscriptionExists):
        hooked.hook(pattern="other/*")


def test_explicit_links_come_and_go(hooked: SubscribingRig) -> None:
    """§6.4: explicit stream membership."""
    hooked.put("x", b"old")
    hooked.subscriptions.link(STREAM_ROOT, "s", ("x",))
    hooked.settle()
    assert hooked.sent == []

    hooked.add("x")
    hooked.settle()
    hooked.answer(done=True)
    hooked.subscriptions.unlink(STREAM_ROOT, "s", "x")
    hooked.add("x")
    hooked.settle()
    assert [list(sent.wake.tails) for sent in hooked.sent] == [["x"]]


def test_linking_what_the_pattern_links_loses_no_news(hooked: SubscribingRig) -> None:
    """§6.4: adding an already-linked stream is idempotent."""
    hooked.put("events/b", b"x")
    hooked.let_group_arrive()
    hooked.subscriptions.link(STREAM_ROOT, "s", ("events/b",))
    hooked.settle()

    assert [list(sent.wake.tails) for sent in hooked.sent] == [["events/b"]]


def test_a_stream_that_is_linked_no_more_is_not_woken_for(hooked: SubscribingRig) -> None:
    hooked.put("x")
    hooked.subscriptions.link(STREAM_ROOT, "s", ("x",))
    hooked.settle()
    hooked.add("x")
    hooked.settle()
    hooked.subscriptions.unlink(STREAM_ROOT, "s", "x")
    hooked.report(done=True)
    hooked.pass_time(3 * LEASE_MS)

    assert generations(hooked) == [1]


def test_unlinking_what_is_not_linked_changes_nothing(hooked: SubscribingRig) -> None:
    hooked.subscriptions.unlink(STREAM_ROOT, "s", "x")

    assert hooked.engine.last_change == hooked.engine.durable_change


def test_a_deleted_subscription_is_gone(hooked: SubscribingRig) -> None:
    """§6.3: requests for a deleted subscription fail."""
    hooked.subscriptions.unsubscribe(STREAM_ROOT, "s")
    hooked.settle()

    for speak in (hooked.found, hooked.report_nothing, lambda: hooked.subscriptions.unsubscribe(STREAM_ROOT, "s")):
        with pytest.raises(SubscriptionNotFound, match="'s'"):
            speak()
    hooked.add("events/a")
    hooked.settle()
    assert hooked.sent == []


def test_the_answer_to_a_deleted_subscription_is_not_taken_for_its_successor(hooked: SubscribingRig) -> None:
    """§6.3: must not advance cursors."""
    hooked.add("events/a")
    hooked.settle()
    old = hooked.sent[0]
    hooked.subscriptions.unsubscribe(STREAM_ROOT, "s")
    hooked.hook()
    hooked.settle()
    hooked.add("events/a")
    hooked.settle()
    hooked.answer(old, done=True)
    hooked.settle()

    assert generations(hooked) == [1, 1]
    assert hooked.found().links["events/a"].acked == 1


def test_a_stream_that_was_created_again_begins_anew(hooked: SubscribingRig) -> None:
    hooked.add("events/a", b"123")
    hooked.settle()
    hooked.answer(done=True)
    hooked.remove("events/a")
    hooked.put("events/a", b"1")
    hooked.settle()

    assert generations(hooked) == [1, 2]
    assert hooked.found().acked("events/a", hooked.sent[1].wake.tails["events/a"].incarnation) == BEFORE_FIRST


def test_a_link_to_a_stream_created_again_at_once_is_to_the_new_one(hooked: SubscribingRig) -> None:
    hooked.put("x", b"1")
    hooked.settle()
    hooked.remove("x")
    hooked.put("x", b"12")
    hooked.subscriptions.link(STREAM_ROOT, "s", ("x",))
    hooked.settle()

    assert (hooked.found().links["x"].acked, hooked.sent) == (2, [])
    assert comparable(hooked, hooked.found()) == comparable(hooked, hooked.stored())


def test_a_fork_with_a_past_is_news(hooked: SubscribingRig) -> None:
    """§7: its tail is greater than its ack."""
    hooked.put("other", b"123")
    hooked.fork(b"/v1/stream/events/fork", b"/v1/stream/other")
    hooked.settle()

    assert [list(sent.wake.tails) for sent in hooked.sent] == [["events/fork"]]


def test_a_record_is_out_of_reach_of_every_pattern(hooked: SubscribingRig) -> None:
    hooked.hook("all", "**")
    hooked.settle()
    hooked.add("events/a")
    hooked.settle()

    assert {path for sent in hooked.sent for path in sent.wake.tails} == {"events/a"}
    assert hooked.engine.exists(record_name(STREAM_ROOT, "all"))


def test_what_is_closed_times_nothing(hooked: SubscribingRig) -> None:
    idle = hooked.scheduler.timers
    hooked.add("events/a")
    hooked.settle()
    assert hooked.scheduler.timers == idle + 1
    hooked.subscriptions.close()

    assert hooked.scheduler.timers == idle
