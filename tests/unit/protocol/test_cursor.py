"""Cursors: keys that let a CDN collapse readers."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol.errors import InvalidQuery
from everbrook.protocol.offset import current_cursor, next_cursor, parse_cursor
from tests.kit.generated import generated

EPOCH = int(datetime(2024, 10, 9, tzinfo=UTC).timestamp()) * 1000

moments = st.integers(EPOCH, EPOCH + 10**13)
chances = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize("elapsed_ms, cursor", [(0, 0), (19_999, 0), (20_000, 1), (20_000_000, 1000)])
def test_a_cursor_counts_intervals_of_twenty_seconds(elapsed_ms: int, cursor: int) -> None:
    """§10.1: counted from October 9, 2024 00:00:00 UTC."""
    assert current_cursor(EPOCH + elapsed_ms) == next_cursor(EPOCH + elapsed_ms, None, 0.5) == cursor


@generated
@given(moments, st.integers(0, 10**12), chances)
def test_a_cursor_is_strictly_greater_than_the_one_echoed(now: int, echoed: int, chance: float) -> None:
    """§10.1: monotonic progression."""
    assert next_cursor(now, echoed, chance) > echoed


@generated
@given(moments, st.integers(0, 10**12), chances)
def test_a_cursor_is_never_behind_the_clock(now: int, echoed: int, chance: float) -> None:
    """§10.1: never backwards."""
    assert next_cursor(now, echoed, chance) >= next_cursor(now, None, chance)


@generated
@given(moments, chances)
def test_a_reader_from_an_earlier_interval_joins_everyone_in_the_current_one(now: int, chance: float) -> None:
    """§10.1: readers collapse on the interval; only who is at or past it gets jitter."""
    current = next_cursor(now, None, 0.0)

    assert next_cursor(now, current - 1, chance) == current
    assert next_cursor(now, current, chance) > current


@pytest.mark.parametrize("chance, intervals", [(0.0, 1), (0.0107, 1), (0.0112, 2), (0.5, 90), (0.9999, 180)])
def test_the_jitter_is_one_second_to_one_hour(chance: float, intervals: int) -> None:
    """§10.1: 1-3600 seconds, at least one whole interval."""
    assert next_cursor(EPOCH, 70, chance) == 70 + intervals


@generated
@given(moments, st.integers(0, 10**12), chances)
def test_an_issued_cursor_can_be_echoed(now: int, echoed: int, chance: float) -> None:
    """§10.1: clients send back what they got."""
    cursor = next_cursor(now, echoed, chance)

    assert parse_cursor(b"%d" % cursor) == cursor


def test_a_clock_that_is_not_set_yet_issues_cursors_that_can_be_echoed() -> None:
    """§10.1: a decimal string, also on a machine that starts in 1970."""
    assert current_cursor(0) == next_cursor(0, None, 0.5) == 0
    assert next_cursor(0, 0, 0.5) > 0


@pytest.mark.parametrize(
    "text", [b"abc", b"-1", b"+1", b"1.5", b"1e3", b" 1", b"1\n", b"1_0", "\N{SUPERSCRIPT TWO}".encode()]
)
def test_what_is_no_cursor_is_refused(text: bytes) -> None:
    """Gap G-22."""
    with pytest.raises(InvalidQuery, match="cursor must be the Stream-Cursor of an earlier response"):
        parse_cursor(text)


@pytest.mark.parametrize("text", [b"0", b"007", b"9" * 18, b"9" * 19, b"9" * 256])
def test_digits_that_nobody_issued_are_gone_beyond_as_well(text: bytes) -> None:
    """Gap G-22: another server of the protocol may have issued them."""
    cursor = parse_cursor(text)

    assert cursor == int(text)
    assert next_cursor(EPOCH, cursor, 0.5) > int(text)


@pytest.mark.parametrize("text", [b"", b"9" * 257, b"9" * 10_000])
def test_no_cursor_and_endless_digits_ask_for_the_current_one(text: bytes) -> None:
    """Gap G-22: clients write an empty parameter where they have none yet."""
    assert parse_cursor(text) is None
