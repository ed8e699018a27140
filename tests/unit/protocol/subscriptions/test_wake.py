"""Wakes, leases, acks and fences (§7)."""

import pytest
from msgspec.structs import replace

from everbrook.protocol import Untouched
from everbrook.protocol.errors import (
    AlreadyClaimed,
    Fenced,
    InvalidAck,
    InvalidRequest,
    NoPendingWork,
    StreamNotFound,
)
from everbrook.protocol.subscriptions import BEFORE_FIRST, Wake
from everbrook.protocol.subscriptions.rules import MAX_WAKE_STREAMS
from tests.kit.views import NOW
from tests.unit.protocol.subscriptions.decisions import HOOK, LEASE_MS, PULL, Desk


@pytest.fixture
def hooked() -> Desk:
    """A webhook subscription with a stream of three bytes, all of them news."""
    desk = Desk()
    desk.subscribe()
    desk.put("events/a", b"123")
    return desk


@pytest.fixture
def pulled() -> Desk:
    """A pull-wake subscription with a stream of three bytes, all of them news."""
    desk = Desk()
    desk.put_wake_stream()
    desk.subscribe(PULL)
    desk.put("events/a", b"123")
    return desk


def test_news_begins_a_generation_with_a_lease(hooked: Desk) -> None:
    """§7.3: for webhook delivery the lease starts when a wake is issued."""
    hooked.wake_up("events/a", wake_id="w_7")

    assert (hooked.it.generation, hooked.wake.wake_id, hooked.wake.lease_until) == (1, "w_7", NOW + LEASE_MS)
    assert {path: link.acked for path, link in hooked.wake.tails.items()} == {"events/a": 3}


def test_a_wake_in_flight_is_the_only_one(hooked: Desk) -> None:
    """§7: unless the subscription already has a wake in flight."""
    hooked.wake_up("events/a")
    hooked.add("events/a")

    assert hooked.wake_up("events/a") == Untouched()


def test_without_news_there_is_no_wake(hooked: Desk) -> None:
    hooked.put("events/empty")
    hooked.put_expired("events/ended")
    hooked.put("other", b"1")

    assert hooked.wake_up("events/empty", "events/ended", "events/gone", "other") == Untouched()
    assert hooked.wake_up() == Untouched()


def test_a_stream_that_is_linked_no_more_wakes_nobody() -> None:
    """§6.4: the link is removed."""
    desk = Desk()
    desk.subscribe(replace(HOOK, streams=("x",)))
    desk.put("x", b"1")
    desk.unlink("x")

    assert desk.wake_up("x") == Untouched()


def test_a_stream_that_was_created_again_begins_anew(hooked: Desk) -> None:
    hooked.wake_up("events/a")
    hooked.deliver(done=True)
    hooked.put_again("events/a", b"1")
    hooked.wake_up("events/a")

    assert {path: link.acked for path, link in hooked.wake.tails.items()} == {"events/a": 1}
    assert hooked.acked("events/a") == BEFORE_FIRST


def test_a_wake_tells_of_so_many_streams_and_no_more(hooked: Desk) -> None:
    paths = [f"events/{number}" for number in range(MAX_WAKE_STREAMS)]
    for path in paths:
        hooked.put(path, b"1")
    hooked.wake_up(paths[-1], "events/a", *paths[:-1])

    assert list(hooked.wake.tails) == [paths[-1], "events/a", *paths[:-2]]


def test_a_pull_wake_is_told_in_the_wake_stream_and_has_no_lease_yet(pulled: Desk) -> None:
    """§7.2: the shape of a wake event. §7.3: the lease starts when a worker claims."""
    pulled.wake_up("events/a")

    assert pulled.told() == [
        {"type": "wake", "subscription_id": "s", "stream": "events/a", "generation": 1, "ts": NOW},
    ]
    assert (pulled.wake.holder, pulled.wake.lease_until) == (None, None)


def test_a_wake_stream_must_be_there_and_open(pulled: Desk) -> None:
    """§7.2: the wake stream is created by the application."""
    pulled.close("wake")
    with pytest.raises(InvalidRequest, match="'wake' is closed"):
        pulled.wake_up("events/a")

    desk = Desk()
    desk.subscribe(PULL)
    desk.put("events/a", b"1")
    with pytest.raises(StreamNotFound):
        desk.wake_up("events/a")
    assert desk.it.generation == 0


def test_a_worker_claims_the_wake_that_was_told(pulled: Desk) -> None:
    """§7.2: the claim is of the wake's generation, and sees the present tails."""
    pulled.wake_up("events/a")
    pulled.add("events/a")
    pulled.claim("events/a", worker="w9")

    assert (pulled.it.generation, pulled.wake.wake_id, pulled.wake.holder) == (1, "w_1", "w9")
    assert (pulled.wake.lease_until, pulled.wake.tails["events/a"].acked) == (NOW + LEASE_MS, 4)


def test_a_worker_that_comes_before_the_wake_begins_it(pulled: Desk) -> None:
    pulled.claim("events/a")

    assert (pulled.it.generation, pulled.wake.wake_id, pulled.wake.holder) == (1, "w_2", "w1")
    assert pulled.told() == []


def test_only_one_worker_holds_the_lease(pulled: Desk) -> None:
    """§7.2: `ALREADY_CLAIMED` names the holder and the generation."""
    pulled.claim("events/a")

    with pytest.raises(AlreadyClaimed, match="'w1' holds the lease") as refusal:
        pulled.claim("events/a", worker="w2")
    assert (refusal.value.holder, refusal.value.generation) == ("w1", 1)


def test_nothing_is_claimed_when_there_is_no_work(pulled: Desk) -> None:
    with pytest.raises(NoPendingWork):
        pulled.claim("events/b")


def test_a_webhook_is_not_claimed(hooked: Desk) -> None:
    with pytest.raises(InvalidRequest, match="its receiver is called"):
        hooked.claim("events/a")


def test_an_ack_without_done_extends_the_lease(pulled: Desk) -> None:
    """§7.2: the ack endpoint doubles as heartbeat."""
    pulled.claim("events/a", wake_id="w_1")
    pulled.report(("events/a", 2), now=NOW + 1000)

    assert (pulled.wake.holder, pulled.wake.lease_until) == ("w1", NOW + 1000 + LEASE_MS)
    assert pulled.acked("events/a") == 2


def test_done_ends_the_wake(hooked: Desk) -> None:
    """§7.2: with `done` the acks apply and the lease is released."""
    hooked.wake_up("events/a")
    hooked.report(("events/a", 3), done=True)

    assert (hooked.it.wake, hooked.acked("events/a")) == (None, 3)


def test_done_without_acks_leaves_the_work(hooked: Desk) -> None:
    """§7.2: a worker can voluntarily release without acking."""
    hooked.wake_up("events/a")
    hooked.report(done=True)
    hooked.wake_up("events/a", wake_id="w_2")

    assert (hooked.it.generation, hooked.acked("events/a")) == (2, BEFORE_FIRST)


@pytest.mark.parametrize("wake_id, generation", [("w_0", 1), ("w_1", 0), ("w_1", 2)])
def test_a_report_on_another_wake_is_fenced(hooked: Desk, wake_id: str, generation: int) -> None:
    """§7.3: `generation` and `wake_id` must match."""
    hooked.wake_up("events/a")

    with pytest.raises(Fenced):
        hooked.report(("events/a", 3), wake_id=wake_id, generation=generation)
    assert hooked.acked("events/a") == BEFORE_FIRST


def test_a_report_on_a_wake_that_is_over_is_fenced(hooked: Desk) -> None:
    """§7.3: stale."""
    hooked.wake_up("events/a")
    hooked.report(done=True)

    with pytest.raises(Fenced, match="generation 1 is over; the current one is 1"):
        hooked.report(done=True)


def test_a_report_after_the_lease_is_fenced_even_before_anybody_noticed(hooked: Desk) -> None:
    """§7.3: when a lease expires the holder and the token are cleared."""
    hooked.wake_up("events/a")
    hooked.report(now=NOW + LEASE_MS - 1)

    with pytest.raises(Fenced, match="the lease has expired"):
        hooked.report(now=NOW + 2 * LEASE_MS - 1)


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_an_ack_lies_between_the_last_one_and_the_tail(hooked: Desk, offset: int) -> None:
    hooked.wake_up("events/a")
    hooked.report(("events/a", offset))

    assert hooked.acked("events/a") == offset


def test_an_ack_does_not_move_back_nor_beyond_the_tail(hooked: Desk) -> None:
    """§7: acks are last-processed inclusive."""
    hooked.wake_up("events/a")
    hooked.report(("events/a", 2))

    for offset in (1, 4):
        with pytest.raises(InvalidAck, match="lies between 0000000000000002 and 0000000000000003"):
            hooked.report(("events/a", offset))
    assert hooked.acked("events/a") == 2


def test_one_bad_ack_spoils_the_others(hooked: Desk) -> None:
    hooked.wake_up("events/a")

    with pytest.raises(InvalidAck):
        hooked.report(("events/a", 3), ("events/b", 1), done=True)
    assert (hooked.acked("events/a"), hooked.wake.wake_id) == (BEFORE_FIRST, "w_1")


def test_an_ack_is_of_a_stream_of_the_subscription(hooked: Desk) -> None:
    hooked.put("other", b"1")
    hooked.wake_up("events/a")

    for path in ("other", "events/gone"):
        with pytest.raises(InvalidAck, match="is not a stream of the subscription"):
            hooked.report((path, 1))


def test_an_explicit_stream_is_acked_like_any_other() -> None:
    desk = Desk()
    desk.put("x", b"1")
    desk.subscribe(replace(HOOK, pattern=None, streams=("x",)))
    desk.add("x")
    desk.wake_up("x")
    desk.report(("x", 2))

    assert desk.acked("x") == 2


def test_a_lease_that_has_run_out_ends_the_wake(hooked: Desk) -> None:
    """§7.3: when a lease expires the holder is cleared."""
    hooked.wake_up("events/a")
    assert hooked.lapse(NOW + LEASE_MS - 1) == Untouched()
    hooked.lapse(NOW + LEASE_MS)

    assert (hooked.it.wake, hooked.it.generation, hooked.acked("events/a")) == (None, 1, BEFORE_FIRST)
    assert hooked.lapse(NOW + LEASE_MS) == Untouched()


def test_an_unclaimed_wake_does_not_lapse(pulled: Desk) -> None:
    """§7.3: for pull-wake the lease starts when a worker claims."""
    pulled.wake_up("events/a")

    assert pulled.lapse(NOW + 10 * LEASE_MS) == Untouched()


def test_done_on_delivery_acks_what_the_wake_told_of(hooked: Desk) -> None:
    """§7.1: the server acks the tail offsets included in that wake snapshot."""
    hooked.wake_up("events/a")
    hooked.add("events/a")
    hooked.deliver(done=True)

    assert (hooked.it.wake, hooked.acked("events/a")) == (None, 3)


def test_done_on_delivery_does_not_move_an_ack_back(hooked: Desk) -> None:
    hooked.wake_up("events/a")
    hooked.add("events/a")
    hooked.report(("events/a", 4))
    hooked.deliver(done=True)

    assert hooked.acked("events/a") == 4


def test_done_on_delivery_does_not_link_what_was_unlinked() -> None:
    """§6.4: linked again, it begins at its tail."""
    desk = Desk()
    desk.subscribe(replace(HOOK, streams=("x",)))
    desk.put("x", b"1")
    desk.wake_up("x")
    desk.unlink("x")
    desk.deliver(done=True)
    desk.add("x")
    desk.link("x")

    assert desk.acked("x") == 2


def test_done_on_the_delivery_of_another_wake_acks_nothing(hooked: Desk) -> None:
    hooked.wake_up("events/a")

    assert hooked.deliver(done=True, generation=2) == Untouched()
    hooked.report(done=True)
    assert hooked.deliver(done=True) == Untouched()


def test_a_delivery_that_was_taken_changes_nothing(hooked: Desk) -> None:
    hooked.wake_up("events/a")

    assert hooked.deliver() == Untouched()
    assert isinstance(hooked.it.wake, Wake)


def test_a_failed_delivery_is_counted_and_tried_again(hooked: Desk) -> None:
    """§7.1: retry metadata is persisted."""
    hooked.wake_up("events/a")
    hooked.deliver(retry_at=NOW + 1000)
    hooked.deliver(retry_at=NOW + 3000)

    assert (hooked.it.failures, hooked.it.next_attempt_at, hooked.wake.wake_id) == (2, NOW + 3000, "w_1")
    hooked.deliver()
    assert (hooked.it.failures, hooked.it.next_attempt_at) == (0, 0)


def test_a_delivery_that_is_done_after_failures_forgets_them(hooked: Desk) -> None:
    hooked.wake_up("events/a")
    hooked.deliver(retry_at=NOW + 1000)
    hooked.deliver(done=True)

    assert (hooked.it.failures, hooked.it.wake, hooked.acked("events/a")) == (0, None, 3)
