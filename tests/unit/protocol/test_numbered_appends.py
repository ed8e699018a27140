"""Appends that a producer numbered."""

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from everbrook.protocol import Append, Appended, Duplicate, Producer
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import (
    ContentTypeMismatch,
    ProtocolError,
    SequenceGap,
    SequenceRegression,
    StaleEpoch,
)
from tests.kit.generated import generated
from tests.kit.views import JSON, NOW, WEEK, Streams, numbered


def test_a_numbered_append_remembers_its_producer() -> None:
    """§5.2.1: data and producer state in one write."""
    streams = Streams()
    stream = streams.hold(b"s")

    outcome = streams.run(numbered(0, b"data", epoch=3))
    assert outcome == Appended(stream.head, Producer(3, 0, NOW))
    assert (stream.stored, stream.producers) == (b"data", {b"p": Producer(3, 0, NOW)})


@pytest.mark.parametrize("seq", [0, 1, 2])
def test_a_duplicate_is_told_the_highest_sequence_and_changes_nothing(seq: int) -> None:
    """§5.2.1: 204 with `Producer-Seq` of the last accepted append."""
    streams = Streams()
    stream = streams.hold(b"s")
    for sent in range(3):
        streams.run(numbered(sent))

    decision = decide(streams, numbered(seq, b"again", now=NOW + 9))
    assert (decision.outcome, decision.change) == (Duplicate(stream.head, Producer(0, 2, NOW)), ())


@pytest.mark.parametrize(
    "command",
    [
        replace(numbered(0), stream_seq=b"5"),
        replace(numbered(0), content_type=JSON),
        replace(numbered(0), content_type=b"nonsense"),
    ],
)
def test_a_duplicate_is_found_before_anything_else_is_checked(command: Append) -> None:
    """§5.2.1: a retry must succeed as the first attempt did."""
    streams = Streams()
    streams.hold(b"s")
    streams.run(replace(numbered(0), stream_seq=b"5"))

    assert isinstance(streams.run(command), Duplicate)


@pytest.mark.parametrize(
    "command, refusal",
    [
        (numbered(2, epoch=2), SequenceGap),
        (numbered(9, epoch=1), StaleEpoch),
        (replace(numbered(1, epoch=1), content_type=JSON), StaleEpoch),
        (replace(numbered(1, epoch=2), content_type=JSON), ContentTypeMismatch),
        (replace(numbered(1, epoch=2), stream_seq=b"5"), SequenceRegression),
    ],
)
def test_a_refused_append_is_refused_again_until_it_is_right(command: Append, refusal: type[ProtocolError]) -> None:
    """§5.2.1: a refusal moves no sequence."""
    streams = Streams()
    stream = streams.hold(b"s")
    streams.run(replace(numbered(0, epoch=2), stream_seq=b"5"))

    for _ in range(2):
        with pytest.raises(refusal):
            streams.run(command)
    assert isinstance(streams.run(numbered(1, epoch=2)), Appended)
    assert stream.stored == b"xx"


def test_producers_count_apart() -> None:
    """§5.2.1: state is kept per producer id."""
    streams = Streams()
    stream = streams.hold(b"s")
    for producer in (b"p", b"q"):
        streams.run(numbered(0, producer=producer))

    streams.run(numbered(0, epoch=1, producer=b"q"))
    assert stream.producers == {b"p": Producer(0, 0, NOW), b"q": Producer(1, 0, NOW)}


@generated
@given(st.lists(st.tuples(st.sampled_from([b"p", b"q"]), st.integers(0, 2), st.integers(0, 3)), max_size=20))
def test_a_stream_holds_each_accepted_append_once(sent: list[tuple[bytes, int, int]]) -> None:
    """§5.2.1: exactly once, in order, however often and in whichever order producers send."""
    streams = Streams()
    stream = streams.hold(b"s")
    accepted: list[tuple[bytes, int, int]] = []
    for producer, epoch, seq in sent:
        body = b"%b%d%d" % (producer, epoch, seq)
        try:
            outcome = streams.run(numbered(seq, body, epoch=epoch, producer=producer))
        except ProtocolError:
            continue
        if isinstance(outcome, Appended):
            accepted.append((producer, epoch, seq))

    assert stream.stored == b"".join(b"%b%d%d" % append for append in accepted)
    assert len(set(accepted)) == len(accepted)
    for producer in (b"p", b"q"):
        own = [(epoch, seq) for name, epoch, seq in accepted if name == producer]
        assert own == sorted(own)


def test_the_producers_that_fell_silent_are_forgotten_when_a_new_one_comes() -> None:
    """§5.2.1: state may be cleaned up."""
    streams = Streams()
    stream = streams.hold(b"s")
    streams.run(numbered(0, producer=b"old"))
    streams.run(numbered(0, producer=b"young", now=NOW + 2))
    streams.run(numbered(1, producer=b"young", now=NOW + WEEK + 1))
    assert set(stream.producers) == {b"old", b"young"}

    streams.run(numbered(0, producer=b"new", now=NOW + WEEK + 1))
    assert set(stream.producers) == {b"young", b"new"}


def test_a_known_producer_is_not_forgotten_by_its_own_return() -> None:
    """§5.2.1: a retry after a long pause is still found."""
    streams = Streams()
    stream = streams.hold(b"s")
    streams.run(numbered(0))

    assert isinstance(streams.run(numbered(0, now=NOW + 2 * WEEK)), Duplicate)
    streams.run(numbered(1, now=NOW + 2 * WEEK))
    assert stream.producers == {b"p": Producer(0, 1, NOW + 2 * WEEK)}
