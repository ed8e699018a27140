"""Pieces of a batch: whole pages, in order, and of them what is not there yet."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from everbrook.spark.postgres.positions import PositionWentBack, Reached, Writer
from everbrook.spark.postgres.table_sink import ends_of, fresh_rows, split_in_transactions
from everbrook.spark.streams.messages import InvalidRow
from everbrook.spark.streams.offsets import Position
from tests.spark.postgres.stream_rows import end_of, rows, writer


def _offset(number: int) -> str:
    return f"{number:016d}"


def _page(stream: str, start: str, end: str, *values: str) -> pa.RecordBatch:
    """Give a page of another server, of which only the beginning and the end are known."""
    unknown = [None] * (len(values) - 1)
    return pa.RecordBatch.from_pydict(
        {
            "stream": [stream] * len(values),
            "offset": pa.array([start, *unknown], pa.string()),
            "next_offset": pa.array([*unknown, end], pa.string()),
            "value": list(values),
        }
    )


def test_batches_are_put_together_up_to_a_size() -> None:
    first = rows("1", "2", "3")
    second = rows("4", "5", start=end_of(first))
    third = rows("6", stream="t")
    found = list(split_in_transactions([first, second, third], max_rows=4))
    assert [piece.rows.num_rows for piece in found] == [5, 1]
    assert found[0].ends == {"s": _offset(end_of(second))}


def test_a_page_of_another_server_is_never_parted() -> None:
    page = _page("s", "a", "b", "1", "2")
    other = _page("s", "b", "c", "3", "4", "5")
    found = list(split_in_transactions([page, other.slice(0, 1), other.slice(1)], max_rows=3))
    assert [piece.rows.column("value").to_pylist() for piece in found] == [["1", "2"], ["3", "4", "5"]]
    assert [piece.ends for piece in found] == [{"s": "b"}, {"s": "c"}]


def test_of_a_page_that_is_there_no_row_is_written_again() -> None:
    (piece,) = split_in_transactions([_page("s", "a", "b", "1", "2"), _page("s", "b", "c", "3", "4")])
    fresh, _ = fresh_rows(piece, {"s": Reached("b", "q", 0)}, writer(0))
    assert fresh.column("value").to_pylist() == ["3", "4"]


def test_each_stream_goes_on_at_its_own_position() -> None:
    one, other = rows("1", "2"), rows("3", "4", stream="t")
    (piece,) = split_in_transactions([one, other])
    reached = {"s": Reached(_offset(2), "q", 0), "t": Reached()}
    fresh, anew = fresh_rows(piece, reached, writer(0))
    assert fresh.column("value").to_pylist() == ["2", "3", "4"]
    assert anew == []


def test_a_position_never_goes_back() -> None:
    (piece,) = split_in_transactions([rows("1", "2")])
    assert ends_of(piece, {"s": Reached(_offset(99), "q", 5)}, [], writer()) == {}


def test_an_incarnation_that_was_not_known_is_added_to_the_position() -> None:
    (piece,) = split_in_transactions([rows("1", "2")])
    reached = {"s": Reached(_offset(99), "q", 5)}
    assert ends_of(piece, reached, [], writer(s="x")) == {"s": Position(_offset(99), incarnation="x")}


def test_the_position_of_another_incarnation_goes_back() -> None:
    (piece,) = split_in_transactions([rows("1", "2")])
    reached = {"s": Reached(_offset(99), "q", 5, "x")}
    assert ends_of(piece, reached, ["s"], writer(s="y")) == {"s": Position(_offset(4), incarnation="y")}
    assert ends_of(piece, reached, ["s"], writer()) == {"s": Position(_offset(4))}


@pytest.mark.parametrize(
    "reached, anew",
    [
        (Reached(_offset(99), "q", 0), True),
        (Reached(_offset(99), "q", 1), False),
        (Reached(_offset(99), "another", 0), False),
        (Reached(_offset(0), "q", 0), False),
    ],
    ids=["a later batch", "the same batch", "another query", "the next rows"],
)
def test_a_stream_that_goes_back_in_a_later_batch_is_another_one(reached: Reached, anew: bool) -> None:  # noqa: FBT001
    assert reached.begins_anew(writer(1), "s", _offset(0)) is anew


@pytest.mark.parametrize(
    "reached, anew",
    [
        (Reached(_offset(99), "another", 7, "x"), True),
        (Reached(_offset(99), "q", 0, "x"), True),
        (Reached(_offset(99), "another", 7, "y"), False),
        (Reached(_offset(99), "q", 0, "y"), False),
        (Reached(_offset(99), "another", 7), False),
    ],
    ids=["another query", "a later batch", "the same to another query", "the same", "one that is not known"],
)
def test_another_incarnation_begins_anew(reached: Reached, anew: bool) -> None:  # noqa: FBT001
    assert reached.begins_anew(writer(1, s="y"), "s", _offset(0)) is anew
    assert reached.begins_anew(writer(1, s="y"), "s", _offset(50)) is anew


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def created(hours: float) -> Writer:
    """A writer that reads a stream which was created so many hours after noon."""
    at = NOON + timedelta(hours=hours)
    return Writer("q", "q", 1, {"s": "y"}, {"s": int(at.timestamp() * 1000)})


def test_a_stream_that_was_created_after_a_position_without_incarnation_begins_anew() -> None:
    reached = Reached(_offset(99), "another", 7, "", NOON)
    assert reached.begins_anew(created(1.1), "s", _offset(0))
    assert reached.begins_anew(created(1.1), "s", _offset(120))
    assert not reached.begins_anew(created(-1.1), "s", _offset(0))
    assert not Reached(updated_at=NOON).begins_anew(created(9), "s", _offset(0))


@pytest.mark.parametrize("hours", [-0.9, 0.9])
def test_a_position_that_may_be_of_another_incarnation_is_left_to_the_user(hours: float) -> None:
    with pytest.raises(PositionWentBack, match=r"created at 2026-01-01 1\d:\d\d:00 UTC.*set its incarnation to 'y'"):
        Reached(_offset(99), "another", 7, "", NOON).begins_anew(created(hours), "s", _offset(0))
    assert not Reached(_offset(99), "another", 7, "", NOON).begins_anew(created(hours), "s", _offset(99))
    assert not Reached(_offset(99), "q", 1, "", NOON).begins_anew(created(hours), "s", _offset(0))


def test_a_run_that_was_overtaken_does_not_bring_an_earlier_incarnation_back() -> None:
    with pytest.raises(PositionWentBack, match=r"in batch 3, but it was written up to .* in batch 4"):
        Reached(_offset(9), "q", 4, "y").begins_anew(writer(3, s="x"), "s", _offset(0))


def test_a_stream_that_goes_back_but_not_to_its_beginning_is_left_to_the_user() -> None:
    reached = Reached(_offset(99), "q", 6)
    assert not reached.begins_anew(writer(6), "s", _offset(50))
    with pytest.raises(PositionWentBack, match=r"'s' at 0+60 come in batch 7, .* up to 0+99 in batch 6"):
        reached.begins_anew(writer(7), "s", _offset(60))


def test_rows_out_of_order_are_refused() -> None:
    batch = rows("1", "2", "3")
    with pytest.raises(InvalidRow, match="not in the order"):
        list(split_in_transactions([batch.slice(1), batch.slice(0, 1)]))


def test_a_row_without_a_stream_is_refused() -> None:
    batch = rows("1").set_column(0, "stream", pa.nulls(1, pa.string()))
    with pytest.raises(InvalidRow, match="'stream' is null"):
        list(split_in_transactions([batch]))


def test_rows_that_a_query_made_of_one_message_are_never_parted() -> None:
    one, other = rows("1", "2"), rows("3", start=4)
    twice = pa.Table.from_batches([one.slice(1)] * 3).combine_chunks().to_batches()
    found = list(split_in_transactions([one.slice(0, 1), one.slice(1), *twice, other], max_rows=2))
    assert [piece.rows.column("value").to_pylist() for piece in found] == [["1", "2", "2", "2", "2"], ["3"]]
