"""Closing, with a last append or without."""

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol import Append, Appended, Claim, Closed, Create, Duplicate, Producer, Write
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import (
    ProtocolError,
    SequenceRegression,
    StaleEpoch,
    StreamClosed,
)
from tests.kit.generated import generated
from tests.kit.views import JSON, NOW, TEXT, Streams, numbered


def close(body: bytes = b"") -> Append:
    return Append(b"s", NOW, TEXT, body, close=True)


def test_a_stream_closes_without_data() -> None:
    """§5.3: the tail stays."""
    streams = Streams()
    stream = streams.hold(b"s", b"data")

    assert streams.run(close()) == Closed(stream.head)
    assert (stream.head.closed, stream.head.tail, stream.head.closed_by) == (True, 4, None)


def test_closing_without_data_looks_at_no_content_type() -> None:
    """§5.2: clients attach default types."""
    for content_type in (None, JSON, b"nonsense"):
        streams = Streams()
        streams.hold(b"s")

        assert isinstance(streams.run(Append(b"s", NOW, content_type, close=True)), Closed)


def test_the_last_data_and_the_close_are_one_write() -> None:
    """§4.1: atomic with the final append."""
    streams = Streams()
    streams.hold(b"s", b"a")

    decision = decide(streams, close(b"end"))
    (write,) = decision.change
    assert isinstance(write, Write)
    assert (write.data, write.head.closed, write.head.tail) == (b"end", True, 4)
    assert decision.outcome == Appended(write.head)


def test_closing_again_succeeds_and_changes_nothing() -> None:
    """§4.1: idempotent."""
    streams = Streams()
    stream = streams.hold(b"s", b"data")
    streams.run(close())

    decision = decide(streams, close())
    assert (decision.outcome, decision.change) == (Closed(stream.head), ())


@pytest.mark.parametrize(
    "command",
    [
        Append(b"s", NOW, TEXT, b"x"),
        close(b"x"),
        numbered(0),
        numbered(0, close=True),
        Append(b"s", NOW, JSON, b"1"),
        Append(b"s", NOW, TEXT, b"x", stream_seq=b"0"),
    ],
)
def test_data_for_a_closed_stream_conflicts_and_says_where_it_ended(command: Append) -> None:
    """§5.2: closed comes before every other conflict, with both headers."""
    streams = Streams()
    streams.hold(b"s", b"data")
    streams.run(Append(b"s", NOW, close=True, stream_seq=b"9"))

    with pytest.raises(StreamClosed) as refused:
        decide(streams, command)
    assert refused.value.headers == ((b"Stream-Closed", b"true"), (b"Stream-Next-Offset", b"0000000000000004"))


def test_a_close_without_data_obeys_the_sequence_too() -> None:
    """§5.2: `Stream-Seq` is strictly increasing, whatever it comes with."""
    streams = Streams()
    stream = streams.hold(b"s")
    streams.run(Append(b"s", NOW, TEXT, b"x", stream_seq=b"5"))

    with pytest.raises(SequenceRegression):
        decide(streams, Append(b"s", NOW, close=True, stream_seq=b"5"))
    streams.run(Append(b"s", NOW, close=True, stream_seq=b"6"))
    assert stream.head.stream_seq == b"6"


@pytest.mark.parametrize("body, kind", [(b"end", Appended), (b"", Closed)])
def test_a_producer_closes_with_data_or_without(body: bytes, kind: type[Appended | Closed]) -> None:
    """§5.2.1."""
    streams = Streams()
    stream = streams.hold(b"s")

    outcome = streams.run(numbered(0, body, close=True))
    assert outcome == kind(stream.head, Producer(0, 0, NOW))
    assert (stream.stored, stream.head.closed, stream.head.closed_by) == (body, True, Claim(b"p", 0, 0))


@pytest.mark.parametrize("body", [b"end", b""])
@pytest.mark.parametrize("again", [b"end", b"other", b""])
def test_the_append_that_closed_is_a_duplicate_when_it_comes_again(body: bytes, again: bytes) -> None:
    """§5.2.1: 204 with the closure, whatever the body."""
    streams = Streams()
    stream = streams.hold(b"s")
    streams.run(numbered(0, body, close=True))

    for closes in (True, not again):
        decision = decide(streams, numbered(0, again, close=closes))
        assert (decision.outcome, decision.change) == (Duplicate(stream.head, Producer(0, 0, NOW)), ())


@pytest.mark.parametrize("seq", [0, 1])
def test_a_close_whose_sequence_was_used_for_data_closes(seq: int) -> None:
    """§5.2.1: never 204 without a close. The producer stays where it was, and the same close again is a duplicate."""
    streams = Streams()
    stream = streams.hold(b"s")
    streams.run(numbered(0))
    streams.run(numbered(1))

    known = Producer(0, 1, NOW)
    assert streams.run(numbered(seq, b"", close=True)) == Closed(stream.head, known)
    assert (stream.stored, stream.head.closed, stream.producer(b"p")) == (b"xx", True, known)
    assert streams.run(numbered(seq, b"", close=True)) == Duplicate(stream.head, known)


def test_data_whose_sequence_was_used_closes_nothing() -> None:
    """§5.2.1: the data are there, the close that came with them is of another append."""
    streams = Streams()
    stream = streams.hold(b"s")
    streams.run(numbered(0))

    assert streams.run(numbered(0, close=True)) == Duplicate(stream.head, Producer(0, 0, NOW))
    assert not stream.head.closed


@pytest.mark.parametrize(
    "command",
    [
        numbered(0),
        numbered(2),
        numbered(9),
        numbered(0, epoch=1),
        numbered(3, epoch=1),
        numbered(1, producer=b"q"),
        numbered(0, producer=b"q", close=True),
    ],
)
def test_every_other_numbered_append_to_a_closed_stream_conflicts(command: Append) -> None:
    """§5.2.1: only the tuple that closed it is a duplicate."""
    streams = Streams()
    streams.hold(b"s")
    streams.run(numbered(0))
    streams.run(numbered(1, close=True))

    with pytest.raises(StreamClosed):
        decide(streams, command)


@pytest.mark.parametrize("body", [b"x", b""])
def test_a_zombie_is_fenced_at_a_closed_stream_too(body: bytes) -> None:
    """Gap G-11: 403."""
    streams = Streams()
    streams.hold(b"s")
    streams.run(numbered(0, epoch=1, close=True))

    with pytest.raises(StaleEpoch):
        decide(streams, numbered(0, body, close=True))


@pytest.mark.parametrize("command", [numbered(2, b"", close=True), numbered(0, b"", close=True, producer=b"q")])
def test_closing_a_closed_stream_succeeds_for_any_producer_and_moves_none(command: Append) -> None:
    """§5.2.1: closing is idempotent with producer headers too."""
    streams = Streams()
    stream = streams.hold(b"s")
    streams.run(numbered(0, close=True))

    decision = decide(streams, command)
    assert (decision.outcome, decision.change) == (Closed(stream.head), ())


def test_an_append_leaves_an_open_stream_open() -> None:
    """§4.1: only `Stream-Closed` closes, and nobody is said to have closed it."""
    streams = Streams()
    stream = streams.hold(b"s")
    streams.run(numbered(0))

    assert (stream.head.closed, stream.head.closed_by) == (False, None)


@generated
@given(st.lists(st.builds(numbered, st.integers(0, 3), st.sampled_from([b"", b"x"]), close=st.booleans()), max_size=8))
def test_nothing_changes_a_closed_stream(commands: list[Append]) -> None:
    """§4.1: closure is monotonic."""
    streams = Streams()
    streams.run(Create(b"s", NOW, 1, TEXT, b"data", closed=True))
    before = streams.kept[b"s"].head

    for command in commands:
        try:
            streams.run(command)
        except ProtocolError:
            continue
    assert streams.kept[b"s"].head is before
