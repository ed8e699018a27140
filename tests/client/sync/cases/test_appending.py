# Written by tools/mirror.py from tests/client/async_/cases/test_appending.py: change that file, not this one.
"""Appends: what is given is what is stored, in its order (§5.2), and appends at the same time share requests."""

import pytest

from everbrook.client._sync.concurrency import spawn
from everbrook.client._sync.stream import Stream
from everbrook.protocol.errors import (
    EmptyAppend,
    PayloadTooLarge,
    ProtocolError,
    SequenceRegression,
    StreamNotFound,
    TailMoved,
)
from tests.kit.faults.kinds import Delayed
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

VALUES: list[object] = [{"a": 1}, [1, [2]], "text", 1.5, None, True, [], {}, "ü\n🌍", 9007199254740993]


@pytest.mark.parametrize("text", ["hello", "Grüße, 世界 🌍", "line\nline\r\n", "\u2028\u0085", " "])
def test_text_is_stored_as_it_is(writer: Writer, stream: Stream[object], text: str) -> None:
    writer.create()
    offset = stream.append(text)
    assert writer.content().decode() == text
    assert offset == writer.tail


def test_bytes_are_stored_as_they_are(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/octet-stream")
    stream.append(bytes(range(256)))
    assert writer.content() == bytes(range(256))


def test_each_value_is_a_message(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    for value in VALUES:
        stream.append(value)
    assert writer.messages() == VALUES


def test_many_values_are_as_many_messages(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("application/json")
    offset = shaky.extend(VALUES)
    assert writer.messages() == VALUES
    assert offset == writer.tail
    assert len(proxy.asked("POST")) == 1


def test_nothing_is_no_message(writer: Writer, stream: Stream[object]) -> None:
    writer.create("text/plain", b"before")
    with pytest.raises(EmptyAppend):
        stream.append("")
    assert stream.extend([]) == writer.tail


def test_a_large_message_arrives(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/octet-stream")
    stream.append(b"x" * 1_000_000)
    assert len(stream.read().bytes()) == 1_000_000


def test_a_message_that_is_too_large_is_refused(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/octet-stream")
    with pytest.raises((PayloadTooLarge, ProtocolError), match="bytes"):
        stream.append(b"x" * 50_000_000)


def test_many_large_values_go_in_several_requests(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("application/json")
    shaky.extend(["x" * 100_000 for _ in range(30)])
    assert len(shaky.read().all()) == 30
    assert len(proxy.asked("POST")) > 2


def test_appends_keep_their_order(writer: Writer, stream: Stream[object]) -> None:
    writer.create()
    offsets = [stream.append(f"{number},") for number in range(20)]
    assert writer.content() == b"".join(b"%d," % number for number in range(20))
    assert offsets == sorted(set(offsets))


def test_a_sequence_orders_writers(writer: Writer, stream: Stream[object]) -> None:
    writer.create()
    for seq in ("001", "002", "100", "9007199254740991"):
        stream.append(seq, seq=seq)
    for seq in ("9007199254740991", "5"):
        with pytest.raises(SequenceRegression):
            stream.append("late", seq=seq)
    stream.append("-without")
    assert writer.content() == b"0010021009007199254740991-without"


def test_an_append_may_depend_on_the_tail(writer: Writer, stream: Stream[object]) -> None:
    writer.create("text/plain", b"one")
    offset = stream.append("two", if_match=writer.tail)
    writer.append(b"meanwhile")
    with pytest.raises(TailMoved):
        stream.append("three", if_match=offset)


def test_appends_to_a_stream_that_is_not_there_are_refused(writer: Writer, stream: Stream[object]) -> None:
    for asked in (stream.append, stream.extend):
        with pytest.raises(StreamNotFound, match=writer.name):
            asked("1")


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_appends_at_the_same_time_all_arrive(
    writer: Writer, proxy: Proxy, shaky: Stream[object], content_type: str
) -> None:
    writer.create(content_type)
    proxy.arm(Delayed(0.1), method="POST")
    tasks = [spawn(shaky.append, f"item{number}", name="append") for number in range(10)]
    for task in tasks:
        task.join()
    content = writer.content().decode()
    assert sorted(content.count(f"item{number}") for number in range(10)) == [1] * 10
    if content_type == "application/json":
        assert len(proxy.asked("POST")) <= 4


def test_one_that_is_refused_does_not_harm_the_others(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("application/json")
    refused: list[ProtocolError] = []

    def append(value: object) -> None:
        try:
            shaky.append(value)
        except ProtocolError as error:
            refused.append(error)

    proxy.arm(Delayed(0.1), method="POST")
    tasks = [spawn(append, value, name="append") for value in (1, 2, b"{broken", 3)]
    for task in tasks:
        task.join()
    assert sorted(writer.messages()) == [1, 2, 3]
    assert [error.status for error in refused] == [400]


def test_a_sequence_that_is_refused_does_not_harm_the_others(writer: Writer, stream: Stream[object]) -> None:
    writer.create()
    stream.append("existing ", seq="1")
    stream.append("new1 ", seq="2")
    with pytest.raises(SequenceRegression):
        stream.append("conflict ", seq="1")
    stream.append("new2", seq="3")
    assert writer.content() == b"existing new1 new2"


@pytest.mark.parametrize("value", [1, {"a": 1}, None])
def test_a_text_stream_takes_no_values(writer: Writer, stream: Stream[object], value: object) -> None:
    writer.create()
    with pytest.raises(TypeError, match="takes str or bytes"):
        stream.append(value)
