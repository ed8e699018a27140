"""A server is killed between append, wake, delivery, callback and ack: all is delivered, nothing moves back (§7)."""

import sys
from pathlib import Path

import pytest

from soak.ledger import PromiseBroken
from soak.subscriptions.killing import Draining, soak_subscriptions
from soak.subscriptions.ledger import Cursors, Grant, Pending, Tally
from tests.crash.durability import forgetful_subscriptions
from tests.crash.durability.synced_modes import SURVIVING

GRANT = Grant(1, "w_1", "token")


@pytest.mark.parametrize("mode", SURVIVING)
def test_every_event_is_delivered_whatever_a_kill_comes_between(mode: str, tmp_path: Path) -> None:
    outlived = soak_subscriptions(mode, tmp_path / "store", kills=2, seed=1, max_secs=60)

    assert outlived.kills == 2
    assert min(outlived.events, outlived.deliveries, outlived.claims, outlived.acks, outlived.refused) > 0


@pytest.mark.parametrize("bug", forgetful_subscriptions.BUGS)
def test_a_server_that_breaks_its_word_to_workers_is_found_out(bug: str, tmp_path: Path) -> None:
    under = (sys.executable, str(Path(forgetful_subscriptions.__file__)), bug)

    with pytest.raises(PromiseBroken):
        soak_subscriptions(
            "acid", tmp_path / "store", kills=10, seed=1, max_secs=30, draining=Draining(1, 4.0), under=under
        )


def cursors() -> Cursors:
    known = Cursors("sub", Tally())
    known.tell(GRANT, [Pending("a", -1, 20)], claimed=True)
    known.attempt({"a": 20})
    known.confirm(GRANT, {"a": 10}, done=True)
    return known


def test_a_cursor_lies_between_what_was_acknowledged_and_what_was_sent() -> None:
    known = cursors()
    for offset in (10, 20):
        known.check(known.confirmed(), {"a": offset})


@pytest.mark.parametrize("offset", [-1, 9, 21])
def test_a_cursor_anywhere_else_is_a_broken_promise(offset: int) -> None:
    known = cursors()

    with pytest.raises(PromiseBroken):
        known.check(known.confirmed(), {"a": offset})


@pytest.mark.parametrize(
    "grant, acked",
    [(Grant(1, "w_2", "token"), -1), (GRANT, -1), (Grant(2, "w_2", "token"), 9)],
    ids=["another wake of the generation", "the generation again", "a cursor that moved back"],
)
def test_a_wake_that_contradicts_an_earlier_one_is_a_broken_promise(grant: Grant, acked: int) -> None:
    with pytest.raises(PromiseBroken):
        cursors().tell(grant, [Pending("a", acked, 30)], claimed=True)


def test_a_message_that_no_worker_has_read_is_a_broken_promise() -> None:
    known = cursors()
    known.read("a", [10])

    assert known.check_seen("a", [10]) == 1
    with pytest.raises(PromiseBroken, match="never told of 1 messages"):
        known.check_seen("a", [10, 20])
