"""The soak in which streams are created anew under running jobs: a short run of it, and its verdict."""

import tempfile
from pathlib import Path

import pytest

from soak.ledger import PromiseBroken
from soak.recreate.killing import soak_recreate
from soak.recreate.streams import Incarnation
from soak.recreate.verdict import Row, judge, judge_fold, named_in

NAME = "in/0"


def incarnation(number: int, messages: int, *, cut: int = 0, ended: bool = False) -> Incarnation:
    keys = [f"{number}-{place}" for place in range(messages)]
    return Incarnation(NAME, number, f"id{number}", keys, [10] * messages, cut, ended=ended, ended_in=2 if ended else 0)


DELETED, EXISTING = incarnation(0, 4, ended=True), incarnation(1, 3, cut=1)


def judged(*keys: str, named: bool = True) -> int:
    rows: list[Row] = [(NAME, key) for key in keys]
    return judge("job", rows, [DELETED, EXISTING], {"id0", "id1"} if named else set(), ordered=True).missing


def test_each_message_once_keeps_the_promise() -> None:
    assert judged(*DELETED.keys, *EXISTING.keys, named=False) == 0


def test_a_deleted_end_and_a_cut_beginning_may_be_missing_if_a_log_names_the_stream() -> None:
    assert judged("0-0", "0-1", "1-1", "1-2") == 3
    with pytest.raises(PromiseBroken, match="2 messages of incarnation 0 of in/0 are missing, and no log names it"):
        judged("0-0", "0-1", "1-1", "1-2", named=False)


def test_what_was_cut_before_a_job_read_the_stream_need_not_be_named() -> None:
    assert judged(*DELETED.keys, "1-1", "1-2", named=False) == 1


@pytest.mark.parametrize("keys", [(), ("1-0", "1-1", "1-2")])
def test_a_stream_that_was_deleted_unread_is_named_unless_a_log_says_that_it_cannot_be(keys: tuple[str, ...]) -> None:
    rows, streams = [(NAME, key) for key in keys], [DELETED, EXISTING] if keys else [DELETED]
    assert judge("job", rows, streams, set(), ordered=True, forgotten=DELETED.ended_in).missing == 4
    with pytest.raises(PromiseBroken, match="4 messages of incarnation 0 of in/0 are missing, and no log names it"):
        judge("job", rows, streams, set(), ordered=True, forgotten=DELETED.ended_in - 1)
    with pytest.raises(PromiseBroken, match="no log names it"):
        judge("job", [(NAME, "0-0"), *rows], streams, set(), ordered=True, forgotten=DELETED.ended_in)


@pytest.mark.parametrize(
    "keys, found",
    [
        (("0-0", "0-3", "1-0", "1-1", "1-2"), "of incarnation 0 of in/0, which is deleted, 2 of 4 messages"),
        (("1-0", "1-1"), "of incarnation 1 of in/0, which exists, 1 of 2 messages"),
        (("1-1", "1-1", "1-2"), "messages twice"),
        (("1-1", "1-2", "2-0"), "messages that were never sent .*2-0"),
        (("1-1", "0-0", "1-2"), "the rows are out of order"),
    ],
)
def test_any_other_difference_breaks_the_promise(keys: tuple[str, ...], found: str) -> None:
    with pytest.raises(PromiseBroken, match=found):
        judged(*keys)


def test_a_log_names_what_was_lost() -> None:
    lines = (
        "messages were lost: 'in/1' is gone (incarnation 1a); 'in/2' ends at 5 (incarnation 2b)",
        "were created and deleted before they were read: 'in/3' (incarnation 3c), 'in/3' (incarnation 4d)",
        "'in/5' (incarnation 5e)",
    )
    assert named_in("\n".join(lines)) == {"1a", "2b", "3c", "4d"}


def test_the_snapshot_of_a_fold_has_messages_of_one_incarnation() -> None:
    judge_fold(EXISTING, 20, {"1-0", "1-1"})
    judge_fold(EXISTING, 20, {"1-1"})
    for keys in ({"1-0"}, {"1-1", "0-1"}, {"1-1", "1-2"}):
        with pytest.raises(PromiseBroken, match="the snapshot of in/0 at 20"):
            judge_fold(EXISTING, 20, keys)


def test_jobs_of_every_kind_survive_when_their_streams_are_created_anew() -> None:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:  # Spark's sockets need a short path
        assert "jobs in mid-batch" in soak_recreate(Path(folder), kills=1, seed=1)
