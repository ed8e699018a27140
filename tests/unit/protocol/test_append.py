"""Appending."""

import pytest

from everbrook.protocol import Append, Appended, Claim, Delete
from everbrook.protocol.append import MAX_STREAM_SEQ_BYTES, parse_stream_seq
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import (
    ContentTypeMismatch,
    EmptyAppend,
    InvalidHeader,
    InvalidJson,
    MissingContentType,
    ProtocolError,
    SequenceRegression,
    StreamGone,
    StreamNotFound,
)
from tests.kit.views import JSON, NOW, TEXT, Streams, numbered


def sequenced(stream_seq: bytes) -> Append:
    return Append(b"s", NOW, TEXT, b"x", stream_seq=stream_seq)


def test_bytes_are_appended_at_the_tail() -> None:
    """§5.2."""
    streams = Streams()
    stream = streams.hold(b"s", b"first")

    outcome = streams.run(Append(b"s", NOW, TEXT, b"second"))
    assert outcome == Appended(stream.head)
    assert (stream.stored, stream.head.tail, stream.ends) == (b"firstsecond", 11, [5, 11])


def test_an_append_is_a_write_to_its_stream() -> None:
    """§5.1: the time of it renews a sliding lifetime."""
    streams = Streams()
    streams.hold(b"s")

    assert streams.run(Append(b"s", NOW + 5, TEXT, b"x")) == Appended(streams.kept[b"s"].head)
    assert streams.kept[b"s"].head.written_at == NOW + 5


def test_each_element_of_a_json_batch_is_a_message() -> None:
    """§9.1.2."""
    streams = Streams()
    stream = streams.hold(b"s", b"[1,[2]]", b'{"a" : 3}', content_type=JSON)

    assert (stream.stored, stream.ends, stream.append_ends) == (b'1,[2],{"a" : 3},', [2, 6, 16], [6, 16])


@pytest.mark.parametrize("body, refusal", [(b"{", InvalidJson), (b"[]", EmptyAppend), (b" [ ] ", EmptyAppend)])
def test_json_that_is_broken_or_empty_is_refused(body: bytes, refusal: type[ProtocolError]) -> None:
    """§9.1.3, §9.1.4."""
    streams = Streams()
    streams.hold(b"s", content_type=JSON)

    for claim in (None, Claim(b"p", 0, 0)):
        with pytest.raises(refusal):
            decide(streams, Append(b"s", NOW, JSON, body, claim=claim))


def test_an_empty_array_is_refused_even_if_it_would_close() -> None:
    """§9.1.3: an append of nothing is likely a bug of the client."""
    streams = Streams()
    streams.hold(b"s", content_type=JSON)

    with pytest.raises(EmptyAppend, match="the body is an empty array"):
        decide(streams, Append(b"s", NOW, JSON, b"[]", close=True))


@pytest.mark.parametrize("claim", [None, Claim(b"p", 0, 0)])
def test_an_append_of_nothing_is_refused(claim: Claim | None) -> None:
    """§5.2: 400 unless it closes."""
    streams = Streams()
    streams.hold(b"s")

    with pytest.raises(EmptyAppend, match="the body is empty"):
        decide(streams, Append(b"s", NOW, TEXT, claim=claim))


def test_a_body_without_a_content_type_is_refused() -> None:
    """§5.2, gap G-14."""
    streams = Streams()
    streams.hold(b"s")

    with pytest.raises(MissingContentType):
        decide(streams, Append(b"s", NOW, None, b"x"))


@pytest.mark.parametrize("content_type", [b"text/plain", b"TEXT/PLAIN", b"text/plain; charset=utf-8"])
def test_case_and_parameters_do_not_make_another_content_type(content_type: bytes) -> None:
    """§5.2, gap G-19."""
    streams = Streams()
    streams.hold(b"s")

    assert isinstance(streams.run(Append(b"s", NOW, content_type, b"x")), Appended)


def test_another_content_type_conflicts() -> None:
    """§5.2, §12.4."""
    streams = Streams()
    streams.hold(b"s")

    with pytest.raises(ContentTypeMismatch, match="the stream holds 'text/plain', the body is 'application/json'"):
        decide(streams, Append(b"s", NOW, JSON, b"1"))


def test_a_content_type_that_is_none_is_refused_as_malformed() -> None:
    """§5.2: 400 for invalid header syntax."""
    streams = Streams()
    streams.hold(b"s")

    with pytest.raises(InvalidHeader):
        decide(streams, Append(b"s", NOW, b"text", b"x"))


@pytest.mark.parametrize(
    "command", [Append(b"s", NOW), Append(b"s", NOW, None, b"x"), Append(b"s", NOW, close=True), numbered(0)]
)
def test_whether_the_stream_exists_is_looked_at_first(command: Append) -> None:
    """§5.2: 404."""
    with pytest.raises(StreamNotFound):
        decide(Streams(), command)


def test_a_soft_deleted_stream_takes_nothing() -> None:
    """§5.2: 410."""
    streams = Streams()
    streams.hold(b"s")
    streams.fork(b"f", b"s")
    streams.run(Delete(b"s", NOW))

    with pytest.raises(StreamGone):
        decide(streams, Append(b"s", NOW, TEXT, b"x"))


def test_an_expired_stream_takes_nothing() -> None:
    """§5.1: 404."""
    streams = Streams()
    streams.hold(b"s", ttl_secs=1)

    with pytest.raises(StreamNotFound):
        decide(streams, Append(b"s", NOW + 1000, TEXT, b"x"))


@pytest.mark.parametrize("last, sent", [(b"1", b"2"), (b"09", b"10"), (b"B", b"a"), (b"a", b"aa"), (b"z", b"\xc3")])
def test_a_greater_stream_seq_is_taken(last: bytes, sent: bytes) -> None:
    """§5.2: compared byte by byte."""
    streams = Streams()
    stream = streams.hold(b"s")
    streams.run(sequenced(last))

    streams.run(sequenced(sent))
    assert stream.head.stream_seq == sent


@pytest.mark.parametrize("last, sent", [(b"2", b"10"), (b"a", b"B"), (b"a", b"a"), (b"aa", b"a"), (b"a", b"")])
def test_a_stream_seq_that_is_not_greater_conflicts(last: bytes, sent: bytes) -> None:
    """§5.2, §12.6: strictly increasing."""
    streams = Streams()
    streams.hold(b"s")
    streams.run(sequenced(last))

    with pytest.raises(SequenceRegression, match=f"must be greater than '{last.decode()}', got '{sent.decode()}'"):
        decide(streams, sequenced(sent))


def test_an_append_without_stream_seq_leaves_the_last_one_standing() -> None:
    """§5.2: the last appended sequence, whatever came in between."""
    streams = Streams()
    streams.hold(b"s")
    streams.run(sequenced(b"5"))
    streams.run(Append(b"s", NOW, TEXT, b"x"))

    with pytest.raises(SequenceRegression):
        decide(streams, sequenced(b"4"))


def test_the_first_stream_seq_may_be_anything() -> None:
    streams = Streams()
    stream = streams.hold(b"s")
    streams.run(sequenced(b""))

    assert stream.head.stream_seq == b""


@pytest.mark.parametrize("text", [None, b"", b"0", b"s" * MAX_STREAM_SEQ_BYTES])
def test_a_stream_seq_is_any_text_of_bounded_length(text: bytes | None) -> None:
    """§5.2: opaque."""
    assert parse_stream_seq(text) == text


def test_a_longer_stream_seq_is_refused() -> None:
    """Limits are the server's."""
    with pytest.raises(InvalidHeader, match="Stream-Seq holds at most 256 bytes, got 257"):
        parse_stream_seq(b"s" * (MAX_STREAM_SEQ_BYTES + 1))


def test_the_content_type_is_checked_before_the_sequence() -> None:
    """§5.2: error precedence."""
    streams = Streams()
    streams.hold(b"s")
    streams.run(sequenced(b"5"))

    with pytest.raises(ContentTypeMismatch):
        decide(streams, Append(b"s", NOW, JSON, b"1", stream_seq=b"4"))


def test_the_times_of_appends_never_go_back() -> None:
    """They are searched: a clock that is set back makes them stand still."""
    streams = Streams()
    streams.hold(b"s")
    for later in (5, 3, 9):
        streams.run(Append(b"s", NOW + later, TEXT, b"x"))

    assert streams.kept[b"s"].times == [NOW + 5, NOW + 5, NOW + 9]
