"""Webhooks that fail are tried again, ever later; those that hang are not sent everything at once (§7.1)."""

import pytest

from tests.unit.engine.subscriptions.subscribing import LEASE_MS, SubscribingRig, generations


def test_the_same_wake_is_sent_again_while_its_lease_lives(hooked: SubscribingRig) -> None:
    """§7.1: retries."""
    hooked.add("events/a")
    hooked.settle()
    hooked.answer(taken=False)
    hooked.pass_time(999)
    assert generations(hooked) == [1]
    hooked.pass_time(1)

    assert generations(hooked) == [1, 1]
    assert hooked.sent[0].wake.wake_id == hooked.sent[1].wake.wake_id


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
def test_retries_come_ever_later_up_to_a_minute_with_jitter(
    hooked: SubscribingRig, chance: float, factor: float
) -> None:
    """§7.1: exponential backoff from 1 second up to 60 seconds with 20% jitter."""
    hooked.clock.drawn = chance
    hooked.add("events/a")
    waited = fail_for(hooked, 400_000)

    expected = [max(1.0, delay * factor) for delay in (1, 2, 4, 8, 16, 32, 60, 60)]
    assert [round(millis / 1000, 1) for millis in waited[:8]] == [pytest.approx(delay, abs=0.11) for delay in expected]


def test_no_two_attempts_are_made_in_the_same_second(hooked: SubscribingRig) -> None:
    """Their signatures would be the same."""
    hooked.clock.micros += 1_999_000
    hooked.add("events/a")
    hooked.settle()
    hooked.clock.micros += 500
    hooked.answer(taken=False)
    hooked.pass_time(5000)

    assert hooked.sent[0].at // 1000 < hooked.sent[1].at // 1000


def test_after_its_lease_a_wake_is_tried_again_as_a_new_generation_when_its_time_has_come(
    hooked: SubscribingRig,
) -> None:
    """§7.3, §7.1: the retry schedule goes on beyond the lease."""
    hooked.add("events/a")
    waited = fail_for(hooked, 60_000)

    assert generations(hooked) == [1, 1, 1, 1, 1, 1, 2]
    assert waited[-1] > waited[-2]
    assert hooked.found().failures == 7


def test_a_new_generation_after_failures_is_durable_before_it_is_sent(hooked: SubscribingRig) -> None:
    hooked.add("events/a")
    fail_for(hooked, 25_500)
    hooked.pass_time(hooked.found().next_attempt_at - hooked.clock.now() - 1)
    sent = len(hooked.sent)
    hooked.clock.micros += 1000
    hooked.scheduler.settle()

    assert (hooked.found().generation, len(hooked.sent)) == (2, sent)
    hooked.settle()
    assert generations(hooked)[sent:] == [2]


def test_a_delivery_that_succeeds_forgets_the_failures(hooked: SubscribingRig) -> None:
    hooked.add("events/a")
    hooked.settle()
    hooked.answer(taken=False)
    hooked.pass_time(1000)
    hooked.answer()
    hooked.settle()

    assert (hooked.found().failures, hooked.found().next_attempt_at, generations(hooked)) == (0, 0, [1, 1])


def test_news_does_not_hasten_a_retry(hooked: SubscribingRig) -> None:
    hooked.add("events/a")
    waited = fail_for(hooked, 31_000)
    assert hooked.found().wake is None
    hooked.add("events/a")
    hooked.pass_time(1000)

    assert len(hooked.sent) == len(waited) + 1


def test_an_answer_after_the_lease_counts_for_nothing(hooked: SubscribingRig) -> None:
    """§7.3: fenced."""
    hooked.add("events/a")
    hooked.settle()
    late = hooked.sent[0]
    hooked.pass_time(2 * LEASE_MS)
    hooked.answer(late, done=True)
    hooked.settle()

    assert hooked.found().acked("events/a", hooked.kept_incarnation("events/a")) <= 0
    assert generations(hooked)[:2] == [1, 2]


def test_a_receiver_that_hangs_is_not_sent_everything_at_once(hooked: SubscribingRig) -> None:
    hooked.add("events/a")
    hooked.pass_time(4 * LEASE_MS)

    assert hooked.found().failures > 0
    assert len(hooked.sent) <= 5
