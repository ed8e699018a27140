"""Webhooks that fail are tried again, ever later; those that hang are not sent everything at once (§7.1)."""

import pytest

from tests.unit.engine.subscriptions.subscribing import LEASE_MS, SubscribingRig


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


def test_the_same_wake_is_sent_again_while_its_lease_lives(rig: SubscribingRig) -> None:
    """§7.1: retries."""
    rig.add("events/a")
    rig.settle()
    rig.answer(taken=False)
    rig.pass_time(999)
    assert generations(rig) == [1]
    rig.pass_time(1)

    assert generations(rig) == [1, 1]
    assert rig.sent[0].wake.wake_id == rig.sent[1].wake.wake_id


def fail_for(rig: SubscribingRig, millis: int) -> list[int]:
    """Let every delivery fail for a time. Gives how long was waited between them."""
    end = rig.clock.now() + millis
    while rig.clock.now() < end:
        rig.settle()
        if rig.found().failures < len(rig.sent):
            rig.answer(taken=False)
        rig.pass_time(50)
    return [later.at - sooner.at for sooner, later in zip(rig.sent, rig.sent[1:], strict=False)]


@pytest.mark.parametrize("chance, factor", [(0.0, 0.8), (0.5, 1.0), (0.999999, 1.2)])
def test_retries_come_ever_later_up_to_a_minute_with_jitter(rig: SubscribingRig, chance: float, factor: float) -> None:
    """§7.1: exponential backoff from 1 second up to 60 seconds with 20% jitter."""
    rig.clock.drawn = chance
    rig.add("events/a")
    waited = fail_for(rig, 400_000)

    expected = [max(1.0, delay * factor) for delay in (1, 2, 4, 8, 16, 32, 60, 60)]
    assert [round(millis / 1000, 1) for millis in waited[:8]] == [pytest.approx(delay, abs=0.11) for delay in expected]


def test_no_two_attempts_are_made_in_the_same_second(rig: SubscribingRig) -> None:
    """Their signatures would be the same."""
    rig.clock.micros += 1_999_000
    rig.add("events/a")
    rig.settle()
    rig.clock.micros += 500
    rig.answer(taken=False)
    rig.pass_time(5000)

    assert rig.sent[0].at // 1000 < rig.sent[1].at // 1000


def test_after_its_lease_a_wake_is_tried_again_as_a_new_generation_when_its_time_has_come(rig: SubscribingRig) -> None:
    """§7.3, §7.1: the retry schedule goes on beyond the lease."""
    rig.add("events/a")
    waited = fail_for(rig, 60_000)

    assert generations(rig) == [1, 1, 1, 1, 1, 1, 2]
    assert waited[-1] > waited[-2]
    assert rig.found().failures == 7


def test_a_new_generation_after_failures_is_durable_before_it_is_sent(rig: SubscribingRig) -> None:
    rig.add("events/a")
    fail_for(rig, 25_500)
    rig.pass_time(rig.found().next_attempt_at - rig.clock.now() - 1)
    sent = len(rig.sent)
    rig.clock.micros += 1000
    rig.scheduler.settle()

    assert (rig.found().generation, len(rig.sent)) == (2, sent)
    rig.settle()
    assert generations(rig)[sent:] == [2]


def test_a_delivery_that_succeeds_forgets_the_failures(rig: SubscribingRig) -> None:
    rig.add("events/a")
    rig.settle()
    rig.answer(taken=False)
    rig.pass_time(1000)
    rig.answer()
    rig.settle()

    assert (rig.found().failures, rig.found().next_attempt_at, generations(rig)) == (0, 0, [1, 1])


def test_news_does_not_hasten_a_retry(rig: SubscribingRig) -> None:
    rig.add("events/a")
    waited = fail_for(rig, 31_000)
    assert rig.found().wake is None
    rig.add("events/a")
    rig.pass_time(1000)

    assert len(rig.sent) == len(waited) + 1


def test_an_answer_after_the_lease_counts_for_nothing(rig: SubscribingRig) -> None:
    """§7.3: fenced."""
    rig.add("events/a")
    rig.settle()
    late = rig.sent[0]
    rig.pass_time(2 * LEASE_MS)
    rig.answer(late, done=True)
    rig.settle()

    assert rig.found().acked("events/a", rig.kept_incarnation("events/a")) <= 0
    assert generations(rig)[:2] == [1, 2]


def test_a_receiver_that_hangs_is_not_sent_everything_at_once(rig: SubscribingRig) -> None:
    rig.add("events/a")
    rig.pass_time(4 * LEASE_MS)

    assert rig.found().failures > 0
    assert len(rig.sent) <= 5
