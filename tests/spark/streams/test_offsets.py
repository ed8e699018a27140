"""Positions: what a checkpoint holds."""

import pytest
from hypothesis import given, strategies as st

from everbrook.spark.streams.offsets import (
    BEGINNING,
    InvalidPositions,
    Position,
    begun,
    format_position,
    is_starting,
    number_of,
    offset_of,
    parse_boundary,
    parse_position,
    token_of,
)

OURS = st.integers(0, 10**16 - 1).map(offset_of)
THEIRS = st.text(st.characters(exclude_characters=",&=?/", exclude_categories=["Cs"]), min_size=1)
POSITIONS = st.builds(
    Position, OURS | THEIRS, st.none() | st.integers(0, 2**45), st.booleans(), st.just("") | THEIRS, st.booleans()
)


@given(POSITIONS)
def test_a_position_is_read_as_it_was_written(position: Position) -> None:
    assert parse_position(format_position(position)) == position


def test_offsets_of_everbrook_are_written_without_zeros() -> None:
    assert format_position(Position("0000000000052480", 36, final=True)) == "52480@10$"
    assert format_position(Position("0000000000052480", 36, final=True, incarnation="6a1c")) == "52480@10#6a1c$"


def test_positions_of_earlier_versions_have_no_incarnation() -> None:
    assert parse_position("52480@10$") == Position("0000000000052480", 36, final=True)
    assert (parse_position("a#b"), parse_position("a!")) == (Position("a#b"), Position("a!"))


@pytest.mark.parametrize(
    "one, other, differs",
    [
        (Position("5", 1, incarnation="a"), Position("9", 1, incarnation="b"), True),
        (Position("5", 1, incarnation="a"), Position("9", 2, incarnation="a"), False),
        (Position("5", 1), Position("9", 2, incarnation="a"), True),
        (Position("5", 1), Position("9", 1, incarnation="a"), False),
        (Position("5"), Position("9", 1, incarnation="a"), False),
    ],
)
def test_positions_differ_by_what_both_of_them_know(one: Position, other: Position, differs: bool) -> None:  # noqa: FBT001
    assert (one.differs(other), other.differs(one)) == (differs, differs)


def test_a_checkpoint_of_somebody_else_is_refused() -> None:
    with pytest.raises(InvalidPositions, match="got '5@é'"):
        parse_position("5@é")


def test_a_query_has_begun_when_a_version_says_so() -> None:
    assert (begun({}), begun({"": "1"}), begun({"": "1 starting"})) == (False, True, True)


@pytest.mark.parametrize(
    "version, starting, token",
    [("1", False, ""), ("1 starting", True, ""), ("1 6a-7", False, "6a-7"), ("1 starting 6a-7", True, "6a-7")],
)
def test_the_token_of_a_list_stands_behind_the_version(version: str, starting: bool, token: str) -> None:  # noqa: FBT001
    assert (is_starting({"": version}), token_of({"": version})) == (starting, token)
    assert (is_starting({}), token_of({})) == (False, "")


def test_a_checkpoint_of_a_later_version_is_refused() -> None:
    with pytest.raises(InvalidPositions, match="version '2'"):
        begun({"": "2", "a": "5"})


def test_offsets_of_users_may_leave_out_zeros_or_be_words() -> None:
    boundary = parse_boundary('{"a": 42, "b": "43", "c": "Latest"}')
    assert boundary.offsets == {"a": "0000000000000042", "b": "0000000000000043", "c": "latest"}


def test_the_beginning_is_before_the_first_byte() -> None:
    assert (number_of(BEGINNING), number_of("0000000000000007"), number_of("a7")) == (0, 7, None)
