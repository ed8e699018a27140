"""Time, and numbers for streams that no stream has had."""

import time

from everbrook.engine import Clock
from everbrook.engine.clock import Incarnations
from tests.unit.engine.rig import Rig


def test_the_clock_counts_milliseconds() -> None:
    before = time.time() * 1000
    now = Clock().now()
    assert before - 1 <= now <= time.time() * 1000 + 1


def test_chance_is_a_fraction() -> None:
    drawn = [Clock().chance() for _ in range(100)]
    assert all(0 <= number < 1 for number in drawn)
    assert len(set(drawn)) > 1


def test_incarnations_increase_while_the_clock_stands_still() -> None:
    incarnations = Incarnations(0)
    numbers = [incarnations.next(1_800_000_000_000) for _ in range(10_000)]
    assert numbers == sorted(set(numbers))


def test_incarnations_increase_when_the_clock_goes_back() -> None:
    incarnations = Incarnations(0)
    numbers = [incarnations.next(now) for now in (1_800_000_000_000, 1_700_000_000_000, 1_800_000_000_001)]
    assert numbers == sorted(set(numbers))


def test_a_later_process_gives_numbers_beyond_those_of_an_earlier_one() -> None:
    earlier, later = Incarnations(0), Incarnations(0)
    last = [earlier.next(1_800_000_000_000) for _ in range(1000)][-1]
    assert later.next(1_800_000_000_001) > last


def test_incarnations_fit_in_eight_bytes_for_a_while() -> None:
    year_2200 = 7_258_118_400_000
    assert Incarnations(0).next(year_2200) < 2**63


def test_each_stream_of_an_engine_is_another_incarnation(rig: Rig) -> None:
    seen = set()
    for _ in range(3):
        for name in (b"a", b"b"):
            seen.add(rig.create(name).head.identity.incarnation)
            rig.delete(name)
    assert len(seen) == 6


def test_a_clock_that_was_set_back_gives_no_number_twice(rig: Rig) -> None:
    """Numbers go on behind the largest that is stored."""
    rig.create(b"a")
    last = rig.create(b"b").head.identity.incarnation
    rig.clock.set_back_ms = 10**9
    rig.restart()
    assert rig.create(b"c").head.identity.incarnation > last


def test_a_clock_that_was_set_back_makes_no_run_look_like_another(rig: Rig) -> None:
    rig.create(b"a")
    first = rig.engine.recent_changes.token()
    rig.clock.set_back_ms = 10**9
    rig.restart()
    assert rig.engine.recent_changes.token() != first


def test_numbers_go_on_behind_those_of_the_storage() -> None:
    assert Incarnations(5 << 60).next(1_800_000_000_000) == (5 << 60) + 1
