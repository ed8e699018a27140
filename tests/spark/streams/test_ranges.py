"""Planning: what lies between two sets of positions, what is lost, and who reads it."""

import pytest
from hypothesis import given, strategies as st

from everbrook.spark.options import InvalidOption
from everbrook.spark.streams.catalogue import Found
from everbrook.spark.streams.offsets import BEGINNING, Boundary, Position, format_position, offset_of, parse_boundary
from everbrook.spark.streams.ranges import (
    Range,
    batch_ranges,
    grouped,
    held_back,
    partition_count,
    positions_at,
    ranges_between,
    small,
    starting_positions,
)
from tests.kit.work import count_lines

NAMES = st.text("ab/", min_size=1, max_size=3)
SIZES = st.dictionaries(NAMES, st.integers(0, 1000))


def found(tail: int, *, created: int = 7, earliest: int = 0, closed: bool = False, incarnation: str = "") -> Found:
    return Found(offset_of(tail), offset_of(earliest), created, closed, incarnation=incarnation)


def ends(streams: dict[str, Found]) -> dict[str, str]:
    return {name: format_position(each.end) for name, each in streams.items()}


def at(offset: int, *, created: int = 7, final: bool = False, incarnation: str = "") -> str:
    return format_position(Position(offset_of(offset), created, final, incarnation))


@given(SIZES, SIZES)
def test_batches_that_follow_each_other_read_everything_once(first: dict[str, int], more: dict[str, int]) -> None:
    begin = {"": "1"}
    middle = positions_at(ends({name: found(size) for name, size in first.items()}), {})
    sizes = {name: first.get(name, 0) + more.get(name, 0) for name in {*first, *more}}
    end = positions_at(ends({name: found(size) for name, size in sizes.items()}), {})
    read = [*ranges_between(begin, middle), *ranges_between(middle, end)]
    by_stream = {name: sum(range_.size_bytes or 0 for range_ in read if range_.name == name) for name in sizes}
    assert by_stream == sizes


def test_a_stream_that_was_not_there_is_read_from_its_beginning() -> None:
    assert ranges_between({"": "1"}, {"": "1", "new": at(5)}) == [Range("new", BEGINNING, offset_of(5), fresh=True)]


def test_a_stream_that_was_created_anew_is_read_from_its_beginning() -> None:
    ranges = ranges_between({"a": at(90, created=1)}, {"a": at(5, created=2)})
    assert ranges == [Range("a", BEGINNING, offset_of(5), fresh=True)]


def test_a_stream_of_another_incarnation_is_read_from_its_beginning() -> None:
    ranges = ranges_between({"a": at(90, incarnation="x")}, {"a": at(95, incarnation="y")})
    assert ranges == [Range("a", BEGINNING, offset_of(95), fresh=True, incarnation="y")]


def test_an_incarnation_that_is_told_for_the_first_time_is_no_other() -> None:
    end = {"a": at(95, incarnation="y")}
    assert ranges_between({"a": at(90)}, end) == [Range("a", offset_of(90), offset_of(95), incarnation="y")]


def test_a_stream_that_was_only_closed_has_nothing_to_read() -> None:
    assert ranges_between({"a": at(5)}, {"a": at(5, final=True)}) == []


def test_a_batch_that_is_cut_ends_before_the_stream_does() -> None:
    streams = {"a": found(9, closed=True)}
    assert positions_at(ends(streams), {"a": offset_of(4)})["a"] == at(4)


def test_a_position_tells_whether_a_stream_was_read_to_the_end_that_goes_by_itself() -> None:
    streams = {"a": Found(offset_of(9), expires=True), "b": Found(offset_of(9), expires=True)}
    positions = positions_at(ends(streams), {"a": offset_of(4)})
    assert (positions["a"], positions["b"]) == ("4", "9@!")
    assert held_back({"b": "5@!"}, positions, [Range("b", offset_of(5), offset_of(9))])["b"] == "5"


def test_positions_have_the_token_by_which_they_were_decided() -> None:
    assert positions_at({}, {}, "6a1c-17") == {"": "1 6a1c-17"}
    assert starting_positions(Boundary("latest"), {}, "6a1c-17") == {"": "1 starting 6a1c-17"}


def test_a_query_begins_where_each_stream_is_told_to() -> None:
    streams = {"a": found(9), "b": found(9, closed=True), "c": found(9)}
    positions = starting_positions(parse_boundary('{"a": 4, "b": "latest"}'), streams)
    assert positions == {"": "1 starting", "a": at(4), "b": at(9, final=True)}
    assert ranges_between({}, positions) == []


def test_a_query_can_not_begin_beyond_the_end() -> None:
    with pytest.raises(InvalidOption, match="beyond the end of 'a'"):
        starting_positions(Boundary(offsets={"a": offset_of(10)}), {"a": found(9)})


def test_offsets_of_a_stream_that_is_not_read_are_refused() -> None:
    with pytest.raises(InvalidOption, match="'x', which does not exist or is not selected"):
        starting_positions(Boundary(offsets={"x": offset_of(1)}), {"a": found(9)})


def range_of(start: int, end: int, *, fresh: bool) -> Range:
    return Range("a", offset_of(start), offset_of(end), fresh, "x")


def test_a_batch_reads_what_is_retained_between_two_places() -> None:
    streams = {"a": found(9, earliest=4, incarnation="x")}
    whole, middle = Boundary("earliest"), parse_boundary('{"a": 6}')
    assert batch_ranges(whole, Boundary("latest"), streams) == [range_of(4, 9, fresh=True)]
    assert batch_ranges(whole, middle, streams) == [range_of(4, 6, fresh=True)]
    assert batch_ranges(middle, Boundary("latest"), streams) == [range_of(6, 9, fresh=False)]
    assert batch_ranges(parse_boundary('{"a": 2}'), middle, streams) == [range_of(4, 6, fresh=False)]


@pytest.mark.parametrize(
    "starting, ending", [('{"a": 6}', '{"a": 6}'), ("earliest", '{"a": 4}'), ("earliest", '{"a": 2}')]
)
def test_a_batch_of_nothing_has_no_ranges(starting: str, ending: str) -> None:
    assert batch_ranges(parse_boundary(starting), parse_boundary(ending), {"a": found(9, earliest=4)}) == []
    assert batch_ranges(Boundary("earliest"), Boundary("latest"), {"a": found(0)}) == []


def test_a_batch_can_not_end_where_streams_begin() -> None:
    with pytest.raises(InvalidOption, match="got 'earliest' for 'a'"):
        batch_ranges(Boundary("earliest"), Boundary("earliest"), {"a": found(9)})


def test_a_batch_is_planned_without_text() -> None:
    """Positions are text for the checkpoints of queries. A batch has none."""
    streams = {str(number): found(9) for number in range(100)}
    lines = count_lines(lambda: batch_ranges(Boundary("earliest"), Boundary("latest"), streams))
    assert lines <= 1350


@given(st.sets(NAMES, min_size=1), st.integers(1, 8))
def test_a_stream_is_in_the_same_group_whatever_else_is_read(names: set[str], count: int) -> None:
    ranges = [Range(name, BEGINNING, offset_of(5)) for name in sorted(names)]
    alone = {tuple(grouped([range_], count)[0]) for range_ in ranges}
    groups = grouped(ranges, count)
    assert sorted(range_.name for group in groups for range_ in group) == sorted(names)
    assert all((range_,) in alone for group in groups for range_ in group)


@pytest.mark.parametrize(
    "streams, size_bytes, count", [(1, 100, 1), (1, 100_000_000, 8), (10_000, 1, 8), (250, 1, 3), (0, 0, 1)]
)
def test_there_are_as_many_tasks_as_there_is_work_for(streams: int, size_bytes: int, count: int) -> None:
    ranges = [Range(str(number), BEGINNING, offset_of(size_bytes)) for number in range(streams)]
    assert partition_count(ranges, 1, 8) == count


def test_a_batch_is_small_when_it_has_few_streams_and_bytes() -> None:
    few = [Range(str(number), BEGINNING, offset_of(100)) for number in range(8)]
    assert small(few)
    assert not small([*few, Range("one more", BEGINNING, offset_of(100))])
    assert not small([Range("large", BEGINNING, offset_of(1_000_000))])


def test_a_batch_whose_size_is_not_known_is_not_small() -> None:
    assert not small([Range("foreign", "0_0", "0_900")])
