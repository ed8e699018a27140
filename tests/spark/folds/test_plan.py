"""Plans of batches, as Spark keeps them."""

import json

import pytest
from msgspec.structs import replace

from everbrook.spark.folds.plan import Plan, batch_of, format_batch, parse_plans, parted, plans_of, turn_of
from everbrook.spark.streams.catalogue import Found
from everbrook.spark.streams.offsets import InvalidPositions, offset_of

FOUND = Found(
    offset_of(900),
    offset_of(0),
    1735689600000,
    content_type="application/json",
    snapshot=offset_of(100),
    incarnation="6a1c",
)


def test_a_batch_has_its_own_streams_and_a_turn() -> None:
    batch = format_batch(3, {"b": FOUND, "a": FOUND})
    assert (
        json.dumps(batch) == '{"version": 1, "turn": 3, "plans": {"a": "900@m5d4ruo0#6a1c", "b": "900@m5d4ruo0#6a1c"}}'
    )


def test_a_batch_that_is_planned_again_goes_on_from_the_snapshot_of_then() -> None:
    (plan,) = plans_of(format_batch(1, {"a": FOUND}), {"a": FOUND})
    known = (offset_of(100), offset_of(100), "application/json", 1735689600000, 800)
    expected = Plan("a", offset_of(900), *known, incarnation="6a1c")
    assert (plan, plan.done) == (expected, False)
    assert plans_of({"version": 1, "turn": 1, "plans": {"a": "900@m5d4ruo0"}}, {"a": FOUND}) == [plan]


def test_a_stream_that_was_created_anew_is_another() -> None:
    batch = format_batch(1, {"a": FOUND})
    gone = [Plan("a", offset_of(900), created_at_ms=1735689600000, gone=True, incarnation="6a1c")]
    for other in (Found(offset_of(5), offset_of(0), 1735689600001), replace(FOUND, incarnation="6a1d")):
        assert plans_of(batch, {"a": other}) == gone


def test_plans_are_rows_and_back() -> None:
    plans = [Plan("a", offset_of(5)), Plan("b", offset_of(7), offset_of(1), offset_of(1), "text/plain", 12, 6)]
    assert parse_plans([batch_of(plans)]) == plans


def test_tasks_have_about_as_much_to_read() -> None:
    sizes = [50_000_000, 30_000_000, 20_000_000, *[10] * 100]
    plans = [Plan(str(number), offset_of(size), log_bytes=size) for number, size in enumerate(sizes)]
    groups = parted(plans, 2)
    loads = [sum(plan.log_bytes for plan in group) for group in groups]
    assert sorted(plan.stream for group in groups for plan in group) == sorted(plan.stream for plan in plans)
    assert max(loads) - min(loads) < 1_000


def test_few_small_streams_are_one_task() -> None:
    assert len(parted([Plan(str(number), offset_of(9), log_bytes=9) for number in range(10)], 8)) == 1


def test_a_checkpoint_of_something_else_is_refused() -> None:
    with pytest.raises(InvalidPositions, match="version None"):
        turn_of({"orders": "12"})
