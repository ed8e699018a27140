"""When a stream is due."""

import pytest

from everbrook.spark.folds.fold_options import MIN_RATIO_BYTES, Policy, Refusal, is_due
from everbrook.spark.streams.catalogue import Found
from everbrook.spark.streams.offsets import offset_of

NOW = 1_000_000
MANY = 10 * MIN_RATIO_BYTES


def _found(log_bytes: int, snapshot: int | None = None, snapshot_bytes: int = 0, at_ms: int = 0) -> Found:
    at = None if snapshot is None else offset_of(snapshot)
    return Found(
        offset_of((snapshot or 0) + log_bytes),
        offset_of(0),
        created_at_ms=at_ms,
        snapshot=at,
        snapshot_bytes=snapshot_bytes,
        snapshot_at_ms=at_ms,
    )


@pytest.mark.parametrize(
    "found, policy, due",
    [
        pytest.param(_found(0), Policy(), False, id="empty"),
        pytest.param(_found(1), Policy(), True, id="something new"),
        pytest.param(_found(0, 500), Policy(), False, id="nothing behind the snapshot"),
        pytest.param(_found(99), Policy(min_log_bytes=100), False, id="too little"),
        pytest.param(_found(MANY), Policy(when_log_is=5), True, id="no snapshot yet"),
        pytest.param(_found(MANY, 9, MANY // 5), Policy(when_log_is=5), True, id="so many times its snapshot"),
        pytest.param(_found(MANY, 9, MANY // 4), Policy(when_log_is=5), False, id="fewer times its snapshot"),
        pytest.param(_found(100, 9, 2), Policy(when_log_is=5), False, id="too small to matter"),
        pytest.param(_found(100, 9, 2), Policy(when_log_is=5, min_log_bytes=100), True, id="large enough as given"),
        pytest.param(_found(1, 9, 2, NOW - 60_000), Policy(every_ms=60_000), True, id="old"),
        pytest.param(_found(1, 9, 2, NOW - 59_999), Policy(every_ms=60_000), False, id="not old"),
        pytest.param(_found(1, None, 0, NOW - 60_000), Policy(every_ms=60_000), True, id="created long ago"),
        pytest.param(_found(0, 9, 2, 0), Policy(every_ms=60_000), False, id="old with nothing new"),
        pytest.param(_found(1, 9, 900, 0), Policy(when_log_is=5, every_ms=60_000), True, id="one rule is enough"),
    ],
)
def test_a_stream_is_due_by_its_log_or_by_its_age(found: Found, policy: Policy, due: bool) -> None:  # noqa: FBT001
    assert is_due(found, policy, NOW) is due


@pytest.mark.parametrize(
    "now, stands",
    [
        pytest.param(_found(100, 50), True, id="nothing new"),
        pytest.param(_found(199, 50), True, id="a little new"),
        pytest.param(_found(200, 50), False, id="twice as much"),
        pytest.param(_found(50, 100), False, id="somebody published"),
        pytest.param(_found(100, 50, at_ms=7), False, id="created anew"),
    ],
)
def test_a_refusal_stands_until_something_may_have_changed_it(now: Found, stands: bool) -> None:  # noqa: FBT001
    assert Refusal(_found(100, 50)).stands(now) is stands
