"""Early decision, late answer: nothing is told or shown before it is durable, and a failure ends all writing."""

from collections.abc import Sequence
from functools import partial

import pytest

from everbrook.protocol import Change, Claim, Duplicate, Existing
from everbrook.protocol.errors import StreamExists, StreamGone, StreamNotFound, Unavailable
from tests.unit.engine.rig import JSON, DelayedRig, Rig

GONE = OSError("the disk is gone")


def sizes(groups: list[Sequence[Change]]) -> list[int]:
    return [len(group) for group in groups]


def note(order: list[int], number: int, _failure: Unavailable | None) -> None:
    order.append(number)


# Answers


def test_an_answer_waits_until_its_change_is_durable(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    told = delayed.answers()
    delayed.scheduler.settle()
    assert told == []
    delayed.let_group_arrive()
    assert told == [None]


def test_an_answer_on_a_storage_that_is_done_at_once_does_not_wait(rig: Rig) -> None:
    told: list[Unavailable | None] = []
    rig.create(b"a")
    rig.engine.when_durable(rig.engine.last_change, told.append)
    assert told == [None]
    assert rig.scheduler.run_soon() == 0


def test_an_answer_that_rests_on_nothing_new_does_not_wait(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    delayed.let_group_arrive()
    assert delayed.answers() == [None]


def test_every_answer_waits_for_what_it_rests_on(delayed: DelayedRig) -> None:
    """A duplicate, an "exists already" and a refusal that rest on a pending change wait for it."""
    delayed.create(b"a")
    delayed.append(b"a", b"x", claim=Claim(b"p", 0, 0))
    assert isinstance(delayed.append(b"a", b"x", claim=Claim(b"p", 0, 0)), Duplicate)
    duplicate = delayed.answers()
    assert isinstance(delayed.create(b"a"), Existing)
    existing = delayed.answers()
    with pytest.raises(StreamExists):
        delayed.create(b"a", content_type=JSON)
    refusal = delayed.answers()
    assert duplicate == existing == refusal == []
    delayed.let_group_arrive()
    assert duplicate == existing == refusal == [None]


def test_the_age_of_the_oldest_pending_change_is_known(delayed: DelayedRig) -> None:
    assert delayed.engine.pending_secs == 0.0
    delayed.create(b"a")
    delayed.scheduler.advance(1_500)
    assert delayed.engine.pending_secs == 1.5
    delayed.let_group_arrive()
    assert delayed.engine.pending_secs == 0.0


def test_answers_are_told_in_order(delayed: DelayedRig) -> None:
    order: list[int] = []
    delayed.create(b"a")
    for number in range(5):
        delayed.append(b"a", b"x")
        delayed.engine.when_durable(delayed.engine.last_change, partial(note, order, number))
    delayed.let_everything_arrive()
    assert order == [0, 1, 2, 3, 4]


def test_a_command_given_while_an_answer_is_told_is_taken(delayed: DelayedRig) -> None:
    delayed.create(b"a")

    def append_next(_failure: Unavailable | None) -> None:
        delayed.append(b"a", b"next")

    delayed.engine.when_durable(delayed.engine.last_change, append_next)
    delayed.let_group_arrive()
    assert delayed.engine.durable_change < delayed.engine.last_change
    delayed.let_group_arrive()
    assert delayed.content(b"a") == b"next"


def test_who_is_told_of_a_change_can_read_it(delayed: DelayedRig) -> None:
    read: list[bytes] = []

    def read_back(_failure: Unavailable | None) -> None:
        read.append(delayed.content(b"a"))

    delayed.create(b"a", b"1")
    delayed.engine.when_durable(delayed.engine.last_change, read_back)
    delayed.let_group_arrive()
    assert read == [b"1"]


# Groups


def test_what_comes_in_one_turn_is_one_group(delayed: DelayedRig) -> None:
    for name in (b"a", b"b", b"c"):
        delayed.create(name)
    delayed.let_everything_arrive()
    assert sizes(delayed.storage.groups) == [3]


def test_what_comes_while_a_group_is_on_its_way_is_the_next_group(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    delayed.scheduler.settle()
    for _ in range(3):
        delayed.append(b"a", b"x")
        delayed.scheduler.settle()
    delayed.let_group_arrive()
    assert delayed.content(b"a") == b""
    delayed.let_group_arrive()
    assert delayed.content(b"a") == b"xxx"
    assert sizes(delayed.storage.groups) == [1, 3]


def test_writing_goes_on_after_a_pause(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    delayed.let_everything_arrive()
    delayed.append(b"a", b"x")
    delayed.let_everything_arrive()
    assert sizes(delayed.storage.groups) == [1, 1]
    assert delayed.content(b"a") == b"x"


def test_the_next_group_is_on_its_way_before_answers_are_told(delayed: DelayedRig) -> None:
    """A disk need not wait for sockets."""
    syncing: list[bool] = []
    delayed.create(b"a")
    delayed.engine.when_durable(delayed.engine.last_change, lambda _: syncing.append(delayed.commits.run(1) == 1))
    delayed.scheduler.settle()
    delayed.append(b"a", b"x")
    delayed.let_group_arrive()
    assert syncing == [True]
    assert delayed.engine.durable_change == 2


def test_a_pin_is_taken_before_the_next_group_is_on_its_way(delayed: DelayedRig) -> None:
    groups: list[list[int]] = []
    delayed.create(b"a")
    delayed.scheduler.settle()
    delayed.append(b"a", b"x")

    def look(*_: object) -> None:
        delayed.commits.run()
        groups.append(sizes(delayed.storage.groups))

    delayed.engine.pin(look)
    delayed.let_group_arrive()
    assert groups == [[1]]


# What readers see


def test_a_stream_that_is_not_durable_is_not_there(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    with pytest.raises(StreamNotFound):
        delayed.open(b"a")
    delayed.let_group_arrive()
    assert delayed.content(b"a") == b""


def test_readers_see_durable_bytes_and_closure_only(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"1")
    delayed.let_group_arrive()
    delayed.append(b"a", b"2", close=True)
    assert delayed.content(b"a") == b"1"
    assert not delayed.open(b"a").committed.closed
    delayed.let_group_arrive()
    assert delayed.content(b"a") == b"12"
    assert delayed.open(b"a").committed.closed


def test_a_stream_whose_deletion_is_not_durable_is_still_read(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"1")
    delayed.let_group_arrive()
    delayed.delete(b"a")
    assert delayed.content(b"a") == b"1"
    delayed.let_group_arrive()
    with pytest.raises(StreamNotFound):
        delayed.open(b"a")


def test_a_stream_whose_soft_deletion_is_not_durable_is_still_read(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"1")
    delayed.fork(b"f", b"a")
    delayed.let_group_arrive()
    delayed.delete(b"a")
    assert delayed.content(b"a") == b"1"
    delayed.let_group_arrive()
    with pytest.raises(StreamGone):
        delayed.open(b"a")


def test_live_readers_get_what_is_durable(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    delayed.let_group_arrive()
    reader = delayed.follow(b"a")
    delayed.append(b"a", b"1")
    delayed.scheduler.settle()
    delayed.append(b"a", b"2")
    delayed.scheduler.settle()
    assert reader.received == b""
    delayed.let_group_arrive()
    delayed.scheduler.settle()
    assert reader.received == b"1"
    delayed.let_everything_arrive()
    delayed.scheduler.settle()
    assert reader.received == b"12"


def test_a_client_that_goes_away_changes_nothing_of_what_readers_get(delayed: DelayedRig) -> None:
    """An append whose answer nobody waits for shows like any other."""
    delayed.create(b"a")
    delayed.let_group_arrive()
    reader = delayed.follow(b"a")
    delayed.append(b"a", b"1")
    delayed.let_group_arrive()
    delayed.scheduler.settle()
    assert reader.received == delayed.content(b"a") == b"1"


def test_decisions_see_what_is_not_durable_yet(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"one")
    delayed.append(b"a", b"two")
    delayed.fork(b"f", b"a", 3, 1)
    delayed.fork(b"g", b"f", 3)
    delayed.fork(b"h", b"f", 4)
    delayed.let_everything_arrive()
    assert [delayed.content(name) for name in (b"f", b"g", b"h")] == [b"onet", b"one", b"onet"]


# Failure


@pytest.mark.parametrize("error", [GONE, MemoryError(), RuntimeError("a bug")], ids=repr)
def test_a_failure_fails_everything_pending(delayed: DelayedRig, error: Exception) -> None:
    delayed.create(b"a")
    on_its_way = delayed.answers()
    delayed.scheduler.settle()
    delayed.append(b"a", b"x")
    queued = delayed.answers()
    delayed.let_group_arrive(error)
    assert [type(told) for told in on_its_way + queued] == [Unavailable, Unavailable]


def test_a_failure_refuses_later_writes(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    delayed.let_group_arrive(GONE)
    for _ in range(2):
        with pytest.raises(Unavailable) as refusal:
            delayed.create(b"b")
        assert refusal.value.status == 503
    assert [type(told) for told in delayed.answers()] == [Unavailable]


def test_nothing_is_tried_again_after_a_failure(delayed: DelayedRig) -> None:
    """After a failed sync nobody knows what the disk holds."""
    delayed.create(b"a")
    delayed.scheduler.settle()
    delayed.create(b"b")
    delayed.let_group_arrive(GONE)
    delayed.scheduler.settle()
    assert sizes(delayed.storage.groups) == [1]
    assert delayed.commits.run() == 0
    assert delayed.storage.load(b"a") is None


def test_reads_go_on_after_a_failure(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"1")
    delayed.let_group_arrive()
    reader = delayed.follow(b"a")
    delayed.append(b"a", b"2")
    delayed.let_group_arrive(GONE)
    delayed.scheduler.settle()
    assert delayed.content(b"a") == b"1"
    assert (reader.received, reader.errors) == (b"", [])


def test_a_refusal_that_is_raised_again_and_again_does_not_grow(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    delayed.let_group_arrive(GONE)
    depths = []
    for _ in range(5):
        with pytest.raises(Unavailable) as refusal:
            delayed.create(b"b")
        depths.append(len(refusal.traceback))
    assert len(set(depths)) == 1
