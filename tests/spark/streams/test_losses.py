"""Losses: messages that a query can't read any more, and streams that it has read to their end."""

import pytest

from everbrook.spark.streams.catalogue import Found
from everbrook.spark.streams.losses import adjust_ranges, ends_of, find_expired, find_losses, find_unread
from everbrook.spark.streams.offsets import BEGINNING, Position, format_position, offset_of
from everbrook.spark.streams.ranges import Range, ranges_between


def found(tail: int, *, created: int = 7, earliest: int = 0, incarnation: str = "") -> Found:
    return Found(offset_of(tail), offset_of(earliest), created, incarnation=incarnation)


def ends(streams: dict[str, Found]) -> dict[str, str]:
    return {name: format_position(each.end) for name, each in streams.items()}


def at(offset: int, *, created: int = 7, final: bool = False, incarnation: str = "", expires: bool = False) -> str:
    return format_position(Position(offset_of(offset), created, final, incarnation, expires))


def losses(here: str, there: Found | None, ended: Position | None = None) -> list[str]:
    streams = {} if there is None else {"a": there}
    return find_losses({"": "1", "a": here}, streams, ends(streams), {} if ended is None else {"a": [ended]})


@pytest.mark.parametrize(
    "here, there, told",
    [
        (at(5), None, "is gone"),
        (at(5), found(9, created=8), "created anew"),
        (at(5, incarnation="x"), found(9, incarnation="y", created=8), "created anew"),
        (at(5, incarnation="x"), found(9, incarnation="y"), "cut by a repair, or restored"),
        (at(5, incarnation="x", expires=True), found(9, incarnation="y"), "cut by a repair, or restored"),
        (at(5), found(3), "ends at 0000000000000003"),
        (at(5), found(9, earliest=6), "begins at 0000000000000006"),
    ],
)
def test_what_is_lost_is_told(here: str, there: Found | None, told: str) -> None:
    (loss,) = losses(here, there)
    assert told in loss


@pytest.mark.parametrize("there", [None, found(9, created=8)])
def test_a_stream_that_was_read_to_its_end_may_be_gone(there: Found | None) -> None:
    assert losses(at(5, final=True), there) == losses(at(5, expires=True), there) == []


def test_a_stream_that_was_cut_behind_what_was_read_is_not_lost() -> None:
    assert losses(at(5), found(9, earliest=5)) == []


def test_what_was_cut_before_it_was_read_is_lost_and_the_rest_is_read() -> None:
    start = {"a": at(4), "b": at(4), "c": at(4)}
    end = {"a": at(9), "b": at(6), "c": at(9), "d": at(9), "e": at(3)}
    streams = {"a": found(9, earliest=6), "b": found(9, earliest=7), "c": found(9, earliest=4)}
    streams |= {"d": found(9, earliest=4), "e": found(9, earliest=4)}
    there, lost = adjust_ranges(ranges_between(start, end), end, streams)
    assert [(range_.name, range_.start) for range_ in there] == [
        ("a", offset_of(6)),
        *((name, offset_of(4)) for name in "cd"),
    ]
    assert [loss.partition(" begins at ")[0] for loss in lost] == ["'a'", "'b'", "'e'"]


@pytest.mark.parametrize("there", [None, found(9, created=8, incarnation="y")])
@pytest.mark.parametrize("here", [at(5, incarnation="x"), at(5), at(5, incarnation="x", expires=True)])
def test_where_the_server_tells_the_end_what_was_not_read_is_lost(here: str, there: Found | None) -> None:
    assert losses(here, there, Position(offset_of(5), incarnation="x")) == []
    (loss,) = losses(here, there, Position(offset_of(7), incarnation="x"))
    which = " (incarnation x)" if "#" in here else ""
    assert loss == f"'a' is gone; it was read until 0000000000000005, and ended at 0000000000000007{which}"


def test_the_end_of_another_incarnation_tells_nothing() -> None:
    other = Position(offset_of(5), incarnation="y")
    assert losses(at(5, incarnation="x"), None, other) == [
        "'a' is gone; it was read until 0000000000000005 (incarnation x)"
    ]


def test_an_incarnation_that_is_told_for_the_first_time_is_no_loss() -> None:
    assert losses(at(90), found(95, incarnation="y")) == []


def test_expired_streams_whose_end_is_unknown_are_named() -> None:
    start = {"": "1", "a": at(5, expires=True), "b": at(5), "c": at(5, expires=True, final=True)}
    start |= {"d": at(5, expires=True), "e": at(5, expires=True)}
    assert find_expired(start, {"d": found(5)}, {"e": [Position(offset_of(5))]}) == ["a"]


def test_a_batch_of_a_stream_that_was_created_anew_is_lost() -> None:
    end = {"a": at(5, incarnation="x"), "b": at(5, created=1), "c": at(5, incarnation="x"), "d": at(5)}
    streams = {name: found(9, earliest=2, incarnation=there) for name, there in zip("abc", "yyx", strict=True)}
    there, losses = adjust_ranges(ranges_between({}, end), end, streams)
    assert there == [
        Range("c", offset_of(2), offset_of(5), fresh=True, incarnation="x"),
        Range("d", BEGINNING, offset_of(5), fresh=True),
    ]
    assert [loss.partition(";")[0] for loss in losses] == [f"{name!r} has another incarnation" for name in "ab"]


def test_each_stream_of_a_name_that_came_and_went_unread_is_told() -> None:
    ended = [Position(offset_of(5), incarnation=each) for each in "xyz"]
    empty = Position(offset_of(0), incarnation="w")
    gone = {"a": ended, "b": ended[:1], "c": [empty], "d": ended[:2]}
    start = {"": "1", "a": at(5, incarnation="x"), "b": at(3, incarnation="x"), "d": at(1, incarnation="x")}
    assert find_unread(gone, start, {"d": at(1, incarnation="y")}) == [f"'a' (incarnation {each})" for each in "yz"]
    assert ends_of(gone, start) == {"a": ended[:1], "b": ended[:1], "d": ended[:1]}
