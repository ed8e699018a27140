"""What decides in the soak of Spark: damage is told by its kind, and a batch that was not done is seen."""

from collections import Counter
from pathlib import Path

import pytest

from soak.ledger import PromiseBroken
from soak.spark.cases import CONTROLS, LOST, OUT_OF_ORDER, TWICE, VARIANTS, Case, groups
from soak.spark.journal import BY_TASKS, JOURNAL, ON_DRIVER, TASK, Journal, in_flight, note
from soak.spark.load import message
from soak.spark.outcome import Outlived, require_found_out, require_held
from soak.spark.verdict import Compared, compare


def compared(*numbers: int, sent: int = 3) -> Compared:
    return compare([message("a", number) for number in numbers], {"a": sent})


def test_what_came_out_once_and_in_order_is_whole() -> None:
    assert compared(0, 1, 2).whole


@pytest.mark.parametrize(
    "numbers, kind", [((0, 2), LOST), ((0, 1, 1, 2), TWICE), ((0, 1, 2, 0, 1), TWICE), ((0, 2, 1), OUT_OF_ORDER)]
)
def test_damage_is_told_by_its_kind_alone(numbers: tuple[int, ...], kind: str) -> None:
    damage = compared(*numbers).damage
    assert [name for name, found in damage.items() if found] == [kind]


def test_sources_that_share_a_stream_have_an_order_each() -> None:
    found = [message("b", 0), message("a", 0), message("b", 1), message("a", 1)]
    assert compare(found, {"a": 2, "b": 2}).whole


@pytest.mark.parametrize("stranger", [message("a", 3), message("b", 0), message("a", 1) | {"room": "less"}], ids=str)
def test_what_nobody_sent_is_no_message(stranger: dict[str, object]) -> None:
    with pytest.raises(PromiseBroken, match="nobody has sent"):
        compare([stranger], {"a": 3})


def test_a_batch_that_was_begun_and_not_done_is_in_flight(tmp_path: Path) -> None:
    for name in ("offsets/0", "offsets/1", "offsets/.2.tmp", "commits/0"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert in_flight(tmp_path) == 1
    (tmp_path / "commits/1").touch()
    assert in_flight(tmp_path) is None


def test_nothing_is_in_flight_before_the_first_batch(tmp_path: Path) -> None:
    assert in_flight(tmp_path) is None


def test_the_journal_tells_queries_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "journal")
    monkeypatch.setenv(JOURNAL, str(journal.path))
    note("one", TASK)
    note("other", TASK)
    assert journal.count("one") == {TASK: 1}
    assert journal.wait("other", {TASK}, 0, 1, while_true=lambda: True)
    assert not journal.wait("other", {TASK}, journal.end(), 0.01, while_true=lambda: True)


def outlived(*numbers: int, paths: tuple[str, ...] = ()) -> Outlived:
    return Outlived(compared=compared(*numbers), paths=Counter(paths))


def test_a_control_is_found_out_by_its_own_damage_alone() -> None:
    case = Case("control", flaw="any", finding=TWICE)
    require_found_out(case, outlived(0, 1, 1, 2))
    with pytest.raises(PromiseBroken, match="was not found out: 1 lost"):
        require_found_out(case, outlived(0, 2))


def test_damage_breaks_the_promise() -> None:
    with pytest.raises(PromiseBroken, match="plain: 1 lost"):
        require_held(Case("plain"), outlived(0, 2, paths=(ON_DRIVER, BY_TASKS, TASK)))


def test_a_soak_that_did_not_go_both_ways_has_shown_nothing() -> None:
    with pytest.raises(PromiseBroken, match="nothing was read by tasks"):
        require_held(Case("plain"), outlived(0, 1, 2, paths=(ON_DRIVER, TASK)))


def test_a_query_that_reads_by_tasks_alone_is_held_to_it() -> None:
    with pytest.raises(PromiseBroken, match="1 batches were read on the driver"):
        require_held(Case("tasks", by_tasks=True), outlived(0, 1, 2, paths=(ON_DRIVER, BY_TASKS, TASK)))


def test_a_soak_that_kills_more_than_it_gets_done_has_shown_nothing() -> None:
    killed = outlived(0, 1, 2, paths=(ON_DRIVER, BY_TASKS, TASK))
    killed.kills["read"] = 1
    with pytest.raises(PromiseBroken, match="only 0 batches were done"):
        require_held(Case("plain"), killed)


def test_every_driver_of_controls_has_one_that_a_kill_can_find_out() -> None:
    assert all(any(case.repeats for case in cases) for cases in groups(CONTROLS, ()))


def test_queries_are_chosen_by_their_names() -> None:
    assert [[case.name for case in cases] for cases in groups(VARIANTS, ["helper", "plain-few"])] == [
        ["helper", "plain-few"]
    ]
