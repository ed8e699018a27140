"""Positions of producers: stored with an append, named by whoever resumes from them."""

import pytest
from msgspec.structs import replace

from everbrook.protocol import Append, Appended, Closed, Duplicate, Producer
from everbrook.protocol.errors import InvalidHeader, PositionMissing, PositionMoved, StaleEpoch
from everbrook.protocol.producer import MAX_POSITION_BYTES, format_producer, parse_position, parse_resumed
from tests.kit.views import NOW, Streams, numbered


def placed(
    seq: int, position: bytes | None, resumes_from: bytes | None = None, *, epoch: int = 0, body: bytes = b"x"
) -> Append:
    """An append with a position."""
    return replace(numbered(seq, body, epoch=epoch), position=position, resumes_from=resumes_from)


@pytest.fixture
def streams() -> Streams:
    """A stream whose producer is at the position `10`, after two appends in epoch 0."""
    streams = Streams()
    streams.hold(b"s")
    streams.run(placed(0, b"5", b""))
    streams.run(placed(1, b"10"))
    return streams


def known(streams: Streams) -> Producer:
    return streams.kept[b"s"].producers[b"p"]


def test_a_position_is_stored_with_its_append(streams: Streams) -> None:
    assert known(streams) == Producer(0, 1, NOW, b"10")


def test_a_duplicate_is_told_the_position(streams: Streams) -> None:
    outcome = streams.run(placed(0, b"5", b""))
    assert isinstance(outcome, Duplicate)
    assert outcome.producer.position == b"10"


@pytest.mark.parametrize("position", [b"10", None])
def test_the_last_append_may_be_sent_again(streams: Streams, position: bytes | None) -> None:
    assert isinstance(streams.run(placed(1, position, b"5")), Duplicate)


@pytest.mark.parametrize("resumes_from", [None, b"", b"5", b"11"])
def test_a_new_epoch_that_does_not_name_the_position_is_told_it(streams: Streams, resumes_from: bytes | None) -> None:
    with pytest.raises(PositionMoved) as refused:
        streams.run(placed(0, b"15", resumes_from, epoch=1))
    assert dict(refused.value.headers)[b"Producer-Position"] == b"10"
    assert known(streams) == Producer(0, 1, NOW, b"10")


def test_a_new_epoch_resumes_and_fences_the_old_writer(streams: Streams) -> None:
    assert isinstance(streams.run(placed(0, b"15", b"10", epoch=1)), Appended)
    assert known(streams) == Producer(1, 0, NOW, b"15")
    with pytest.raises(StaleEpoch):
        streams.run(placed(2, b"15"))


def test_an_old_writer_cant_slip_in_before_the_first_append_of_a_new_epoch(streams: Streams) -> None:
    seen = known(streams).position
    streams.run(placed(2, b"12"))
    with pytest.raises(PositionMoved, match="stored position is '12'"):
        streams.run(placed(0, b"15", seen, epoch=1))


def test_two_writers_that_begin_at_once_do_not_take_each_other_for_a_retry() -> None:
    streams = Streams()
    streams.hold(b"s")
    streams.run(placed(0, b"5", b""))
    with pytest.raises(PositionMoved, match="another writer uses epoch 0"):
        streams.run(placed(0, b"7", b""))


@pytest.mark.parametrize("resumes_from", [b"", b"5"])
def test_a_producer_without_a_position_resumes_from_nowhere(resumes_from: bytes) -> None:
    streams = Streams()
    streams.hold(b"s")
    streams.run(numbered(0))
    if resumes_from:
        with pytest.raises(PositionMoved, match="no position is stored"):
            streams.run(placed(0, b"1", resumes_from, epoch=1))
    else:
        streams.run(placed(0, b"1", resumes_from, epoch=1))
        assert known(streams).position == b"1"


@pytest.mark.parametrize("position, resumes_from", [(b"1", None), (None, b"")])
def test_where_nothing_is_stored_one_of_both_is_enough(position: bytes | None, resumes_from: bytes | None) -> None:
    streams = Streams()
    streams.hold(b"s")
    streams.run(numbered(0))
    assert isinstance(streams.run(placed(0, position, resumes_from, epoch=1)), Appended)
    assert known(streams) == Producer(1, 0, NOW, position)


def test_a_producer_that_is_not_known_is_refused_a_position_to_resume_from() -> None:
    streams = Streams()
    streams.hold(b"s")
    with pytest.raises(PositionMoved) as refused:
        streams.run(placed(0, b"15", b"10"))
    assert refused.value.headers == ()


def test_data_without_a_position_is_refused_where_there_is_one(streams: Streams) -> None:
    with pytest.raises(PositionMissing):
        streams.run(numbered(2))


def test_a_close_keeps_the_position(streams: Streams) -> None:
    outcome = streams.run(replace(numbered(2, b"", close=True), content_type=None))
    assert outcome == Closed(streams.kept[b"s"].head, Producer(0, 2, NOW, b"10"))


def test_a_position_may_stay_where_it_is(streams: Streams) -> None:
    streams.run(placed(2, b"10", b"10"))
    assert known(streams) == Producer(0, 2, NOW, b"10")


@pytest.mark.parametrize("parse", [parse_position, parse_resumed])
def test_a_position_is_bounded(parse: type[bytes]) -> None:
    assert parse(b"x" * MAX_POSITION_BYTES) == b"x" * MAX_POSITION_BYTES
    with pytest.raises(InvalidHeader, match="at most 1024 bytes, got 1025"):
        parse(b"x" * (MAX_POSITION_BYTES + 1))


def test_an_empty_position_is_refused_and_nothing_is_none() -> None:
    with pytest.raises(InvalidHeader, match="must not be empty"):
        parse_position(b"")
    assert (parse_position(None), parse_resumed(None), parse_resumed(b"")) == (None, None, b"")


def test_a_producer_is_told_with_its_position_if_it_has_one() -> None:
    told = ((b"Producer-Epoch", b"3"), (b"Producer-Seq", b"4"))
    assert format_producer(Producer(3, 4, NOW)) == told
    assert format_producer(Producer(3, 4, NOW, b"x")) == (*told, (b"Producer-Position", b"x"))
