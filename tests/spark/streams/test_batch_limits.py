"""Limits: a batch is within them and not empty, no stream starves, and messages are never cut."""

from collections.abc import Sequence
from itertools import accumulate

from hypothesis import given, strategies as st

from everbrook.spark.options import Limits
from everbrook.spark.streams.limits import Lookup, in_turn, limit, shares, split
from everbrook.spark.streams.offsets import BEGINNING, number_of, offset_of
from everbrook.spark.streams.ranges import Range

LENGTHS = st.lists(st.integers(1, 5000), min_size=1, max_size=60)
STREAMS = st.dictionaries(st.text("abc", min_size=1, max_size=2), LENGTHS, min_size=1, max_size=6)


class Model:
    """Streams with messages of some lengths, which know where their messages end."""

    def __init__(self, lengths: dict[str, list[int]]) -> None:
        self.ends = {name: [0, *accumulate(each)] for name, each in lengths.items()}
        self.asked: list[int] = []

    @property
    def ranges(self) -> list[Range]:
        return [Range(name, BEGINNING, offset_of(ends[-1]), fresh=True) for name, ends in sorted(self.ends.items())]

    def ask(self, questions: Sequence[Lookup]) -> list[str]:
        self.asked.append(len(questions))
        return [self._answer(question) for question in questions]

    def _answer(self, question: Lookup) -> str:
        ends = self.ends[question.name]
        start = number_of(question.offset) or 0
        behind = [end for end in ends if end > start]
        if question.unit == "skip":
            return offset_of(behind[min(question.count, len(behind)) - 1])
        return offset_of(max(behind[0], *(end for end in behind if end <= start + question.count), 0))

    def rows(self, ends: dict[str, str]) -> int:
        return sum(self.ends[name].index(number_of(end) or 0) for name, end in ends.items())


class Backlog(Model):
    """Streams that are read batch by batch, while more comes."""

    def __init__(self, lengths: dict[str, list[int]]) -> None:
        super().__init__(lengths)
        self.positions = dict.fromkeys(lengths, 0)
        self.first = ""

    def append(self, name: str, lengths: list[int]) -> None:
        self.ends[name] += [*accumulate(lengths, initial=self.ends[name][-1])][1:]

    def batch(self, limits: Limits) -> set[str]:
        """Read a batch as the reader does, and give the streams that were in it."""
        left = [
            Range(name, offset_of(self.positions[name]), offset_of(ends[-1]))
            for name, ends in sorted(self.ends.items())
            if self.positions[name] < ends[-1]
        ]
        ranges = in_turn(left, self.first)
        ends = limit(ranges, limits, self.ask)
        self.positions |= {name: number_of(end) or 0 for name, end in ends.items()}
        self.first = next((range_.name for range_ in ranges if range_.name not in ends), self.first)
        return set(ends)


@given(STREAMS, st.integers(1, 500))
def test_a_batch_has_some_rows_and_not_more_than_allowed(lengths: dict[str, list[int]], rows: int) -> None:
    model = Model(lengths)
    assert 0 < model.rows(limit(model.ranges, Limits(max_rows=rows), model.ask)) <= rows


@given(STREAMS, st.integers(1, 100_000))
def test_a_batch_has_not_more_bytes_than_allowed_unless_it_is_one_message(
    lengths: dict[str, list[int]], size: int
) -> None:
    model = Model(lengths)
    ends = limit(model.ranges, Limits(max_bytes=size), model.ask)
    taken = sum(number_of(end) or 0 for end in ends.values())
    assert 0 < taken <= size or model.rows(ends) == 1


@given(STREAMS, st.integers(1, 50), st.integers(1, 50_000))
def test_both_limits_hold_at_once(lengths: dict[str, list[int]], rows: int, size: int) -> None:
    model = Model(lengths)
    ends = limit(model.ranges, Limits(rows, size), model.ask)
    taken = sum(number_of(end) or 0 for end in ends.values())
    assert 0 < model.rows(ends) <= rows
    assert taken <= size or model.rows(ends) == 1


@given(st.dictionaries(st.text("abc", min_size=1), st.integers(1, 10**6), min_size=1), st.integers(1, 10**6))
def test_shares_are_at_least_a_quantum_and_not_more_than_there_is(sizes: dict[str, int], total: int) -> None:
    parts = shares(sizes, total, 100)
    assert sum(parts.values()) <= total
    assert all(part >= min(sizes[name], 100, total) for name, part in parts.items())


def test_a_quiet_stream_is_in_the_next_batch_whatever_a_busy_one_has() -> None:
    for limits in (Limits(max_rows=1000), Limits(max_bytes=100_000)):
        backlog = Backlog({"busy": [100] * 100_000, "quiet": [10]})
        assert backlog.batch(limits) == {"busy", "quiet"}


def test_streams_take_turns_when_the_limit_is_too_small_for_all() -> None:
    backlog = Backlog({str(number): [100] * 1000 for number in range(10)})
    batches = [backlog.batch(Limits(max_rows=200)) for _ in range(5)]
    assert set.union(*batches) == backlog.ends.keys()


@given(
    st.lists(st.integers(0, 200_000), min_size=2, max_size=12),
    st.integers(1, 60_000),
    st.sampled_from([Limits(max_rows=1), Limits(max_rows=150), Limits(max_bytes=20_000), Limits(300, 40_000)]),
)
def test_a_stream_waits_for_at_most_as_many_batches_as_there_are_streams(
    lengths: list[int], large: int, limits: Limits
) -> None:
    """Some streams have an endless backlog, others one message, which may be larger than a batch."""
    streams = {f"{number:02d}": [length or 10] for number, length in enumerate(lengths)}
    backlog = Backlog(streams)
    waited = dict.fromkeys(streams, 0)
    for number in range(3 * len(streams)):
        for name in list(streams)[:: 1 + number % 3]:
            backlog.append(name, [large])
        there = {name for name, ends in backlog.ends.items() if backlog.positions[name] < ends[-1]}
        served = backlog.batch(limits)
        waited = {name: waited[name] + 1 if name in there - served else 0 for name in streams}
        assert max(waited.values()) < len(streams)


@given(LENGTHS, st.integers(2, 5))
def test_pieces_of_a_range_are_all_of_it_in_order(lengths: list[int], count: int) -> None:
    model = Model({"a": lengths})
    pieces = split(model.ranges[0], count, model.ask)
    assert [piece.start for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    assert (pieces[0].start, pieces[-1].end) == (BEGINNING, model.ranges[0].end)
    assert len(pieces) <= count


def test_one_question_finds_where_a_stream_is_to_be_cut() -> None:
    model = Model({"a": [100] * 200_000})
    ends = limit(model.ranges, Limits(max_bytes=5_000_050), model.ask)
    assert (ends, model.asked) == ({"a": offset_of(5_000_000)}, [1])


def test_a_large_message_takes_no_more_questions() -> None:
    model = Model({"a": [10] * 500 + [1_000_000] + [10] * 500})
    ends = limit(model.ranges, Limits(max_bytes=900_000), model.ask)
    assert (ends, model.asked) == ({"a": offset_of(5000)}, [1])


def test_all_streams_are_asked_about_at_once() -> None:
    model = Model({str(number): [number * 7 + 10] * 1000 for number in range(50)})
    ends = limit(model.ranges, Limits(10_000, 1_000_000), model.ask)
    assert model.rows(ends) <= 10_000
    assert len(model.asked) == 2
