"""Limits: never more than allowed, never nothing, and messages never cut."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from hypothesis import given, strategies as st

from everbrook.spark.limiting import Question, limit, shares, split
from everbrook.spark.options import Limits
from everbrook.spark.planning import Range
from everbrook.spark.positions import BEGINNING, number_of, offset_of

LENGTHS = st.lists(st.integers(1, 5000), min_size=1, max_size=60)
STREAMS = st.dictionaries(st.text("abc", min_size=1, max_size=2), LENGTHS, min_size=1, max_size=6)


class Model:
    """Streams with messages of some lengths, which know where their messages end."""

    def __init__(self, lengths: dict[str, list[int]]) -> None:
        self.ends = {name: [0, *accumulate(each)] for name, each in lengths.items()}
        self.asked = 0

    @property
    def ranges(self) -> list[Range]:
        return [Range(name, BEGINNING, offset_of(ends[-1]), fresh=True) for name, ends in sorted(self.ends.items())]

    def skip(self, questions: Sequence[Question]) -> list[str]:
        self.asked += 1
        return [self._behind(*question) for question in questions]

    def _behind(self, name: str, offset: str, messages: int) -> str:
        place = self.ends[name].index(number_of(offset) or 0) + messages
        return offset_of(self.ends[name][min(place, len(self.ends[name]) - 1)])

    def rows(self, ends: dict[str, str]) -> int:
        return sum(self.ends[name].index(number_of(end) or 0) for name, end in ends.items())


@given(STREAMS, st.integers(1, 500), st.integers(0, 5))
def test_a_batch_has_some_rows_and_not_more_than_allowed(lengths: dict[str, list[int]], rows: int, turn: int) -> None:
    model = Model(lengths)
    assert 0 < model.rows(limit(model.ranges, Limits(max_rows=rows), model.skip, turn)) <= rows


@given(STREAMS, st.integers(1, 100_000), st.integers(0, 5))
def test_a_batch_has_not_more_bytes_than_allowed_unless_it_is_one_message(
    lengths: dict[str, list[int]], size: int, turn: int
) -> None:
    model = Model(lengths)
    ends = limit(model.ranges, Limits(max_bytes=size), model.skip, turn)
    taken = sum(number_of(end) or 0 for end in ends.values())
    assert 0 < taken <= size or model.rows(ends) == 1


@given(STREAMS, st.integers(1, 50), st.integers(1, 50_000))
def test_both_limits_hold_at_once(lengths: dict[str, list[int]], rows: int, size: int) -> None:
    model = Model(lengths)
    ends = limit(model.ranges, Limits(rows, size), model.skip, 0)
    taken = sum(number_of(end) or 0 for end in ends.values())
    assert model.rows(ends) <= rows
    assert taken <= size or model.rows(ends) == 1


@given(st.dictionaries(st.text("abc", min_size=1), st.integers(1, 10**6), min_size=1), st.integers(1, 10**6))
def test_shares_add_up_to_what_there_is_to_share(sizes: dict[str, int], total: int) -> None:
    assert sum(shares(sizes, total, 1, 0).values()) == total


def test_everybody_has_a_turn_where_there_is_not_enough_for_all() -> None:
    sizes = {str(number): 100 for number in range(10)}
    seen = {name for turn in range(5) for name in shares(sizes, 2, 1, turn)}
    assert seen == sizes.keys()


@given(LENGTHS, st.integers(2, 5))
def test_pieces_of_a_range_are_all_of_it_in_order(lengths: list[int], count: int) -> None:
    model = Model({"a": lengths})
    pieces = split(model.ranges[0], count, model.skip)
    assert [piece.start for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    assert (pieces[0].start, pieces[-1].end) == (BEGINNING, model.ranges[0].end)


def test_few_questions_find_where_a_million_messages_are_to_be_cut() -> None:
    model = Model({"a": [100] * 200_000})
    ends = limit(model.ranges, Limits(max_bytes=5_000_000), model.skip, 0)
    assert 3_750_000 <= (number_of(ends["a"]) or 0) <= 5_000_000
    assert model.asked <= 4


def test_one_large_message_does_not_make_the_search_long() -> None:
    model = Model({"a": [10] * 500 + [1_000_000] + [10] * 500})
    ends = limit(model.ranges, Limits(max_bytes=900_000), model.skip, 0)
    assert number_of(ends["a"]) in model.ends["a"][: bisect_right(model.ends["a"], 900_000)]
    assert model.asked <= 24


def test_all_streams_are_asked_about_at_once() -> None:
    model = Model({str(number): [100] * 1000 for number in range(50)})
    ends = limit(model.ranges, Limits(max_rows=10_000), model.skip, 0)
    assert (model.rows(ends), model.asked) == (10_000, 1)


def test_streams_with_messages_of_other_sizes_are_searched_side_by_side() -> None:
    model = Model({str(number): [number * 7 + 10] * 2000 for number in range(50)})
    limit(model.ranges, Limits(max_bytes=5_000_000), model.skip, 0)
    assert model.asked <= 5
