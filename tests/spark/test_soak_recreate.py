"""Streams that are replaced under running jobs, in a short run; and what decides in it."""

import tempfile
from pathlib import Path

import pytest

from soak.ledger import PromiseBroken
from soak.recreate.changing import Incarnation
from soak.recreate.killing import soak_recreate
from soak.recreate.verdict import Row, judge, judge_fold, named_in

NAME = "in/0"


def incarnation(number: int, messages: int, *, cut: int = 0, ended: bool = False) -> Incarnation:
    keys = [f"{number}-{place}" for place in range(messages)]
    return Incarnation(NAME, number, keys, [10] * messages, cut, ended=ended)


GONE, THERE = incarnation(0, 4, ended=True), incarnation(1, 3, cut=1)


def judged(*keys: str, named: bool = True) -> int:
    rows: list[Row] = [(NAME, key) for key in keys]
    return judge("job", rows, [GONE, THERE], {NAME} if named else set(), ordered=True).missing


def test_what_is_there_once_is_whole() -> None:
    assert judged(*GONE.keys, *THERE.keys, named=False) == 0


def test_the_end_of_what_is_gone_and_what_was_cut_may_be_missing_if_the_stream_is_named() -> None:
    assert judged("0-0", "0-1", "1-1", "1-2") == 3
    with pytest.raises(PromiseBroken, match="2 messages of in/0 are missing, and nothing names it"):
        judged("0-0", "0-1", "1-1", "1-2", named=False)


def test_what_nobody_has_seen_need_not_be_named() -> None:
    assert judged("1-1", "1-2", named=False) == 5


def test_a_stream_that_came_and_went_unread_is_named_unless_the_server_forgot_it() -> None:
    assert judge("job", [], [GONE], set(), ordered=True, forgotten=True).missing == 4
    with pytest.raises(PromiseBroken, match="nothing names it"):
        judge("job", [], [GONE], set(), ordered=True)
    with pytest.raises(PromiseBroken, match="nothing names it"):
        judge("job", [(NAME, "0-0")], [GONE], set(), ordered=True, forgotten=True)


@pytest.mark.parametrize(
    "keys, found",
    [
        (("0-0", "0-3", "1-0", "1-1", "1-2"), "of incarnation 0 of in/0, which is gone, 2 of 4 messages"),
        (("1-0", "1-1"), "of incarnation 1 of in/0, which is there, 1 of 2 messages"),
        (("1-1", "1-1", "1-2"), "messages twice"),
        (("1-1", "1-2", "2-0"), "messages of nobody"),
        (("1-1", "0-0", "1-2"), "the order was lost"),
    ],
)
def test_everything_else_breaks_the_promise(keys: tuple[str, ...], found: str) -> None:
    with pytest.raises(PromiseBroken, match=found):
        judged(*keys)


def test_a_log_names_what_was_lost() -> None:
    lines = ("messages were lost: 'in/1' is gone; 'in/2' ends at 5", "came and went unread: 'in/3', 'in/4'", "'in/5'")
    assert named_in("\n".join(lines)) == {"in/1", "in/2", "in/3", "in/4"}


def test_the_snapshot_of_a_fold_has_its_own_incarnation_alone() -> None:
    judge_fold(THERE, 20, {"1-0", "1-1"})
    judge_fold(THERE, 20, {"1-1"})
    for keys in ({"1-0"}, {"1-1", "0-1"}, {"1-1", "1-2"}):
        with pytest.raises(PromiseBroken, match="the snapshot of in/0 at 20"):
            judge_fold(THERE, 20, keys)


def test_jobs_of_every_kind_survive_that_their_streams_are_replaced() -> None:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:  # Spark's sockets need a short path
        assert "jobs in mid-batch" in soak_recreate(Path(folder), kills=1, seed=1)
