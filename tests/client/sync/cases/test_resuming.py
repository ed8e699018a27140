# Written by tools/mirror.py from tests/client/async_/cases/test_resuming.py: change that file, not this one.
"""Producers that resume: what another run of a writer finds stored, and goes on behind (Producer-Position, ours)."""

from collections.abc import Sequence

import pytest

from everbrook.client._sync.stream import Stream
from everbrook.client.errors import InvalidAnswer, ProducerReused, Unsupported
from everbrook.protocol.errors import PositionMoved, StaleEpoch
from tests.kit.faults.kinds import AnswerLost, Edited, Fault, NeverSent
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

LINES = [f"line {number}" for number in range(1, 21)]


def copy(stream: Stream[object], lines: Sequence[str] = LINES, *, batch: int = 3) -> None:
    """Copy lines, from behind those that are stored, with their numbers as positions."""
    with stream.producer("copy", resume=True, max_batch_items=batch) as producer:
        stored = int(producer.position or 0)
        for number, line in enumerate(lines[stored:], stored + 1):
            producer.append(line, position=str(number))


def test_another_run_goes_on_where_the_one_before_has_ended(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    for lines, batch in ((LINES[:5], 2), (LINES[:5], 3), (LINES[:13], 5), (LINES, 1)):
        copy(stream, lines, batch=batch)
    assert writer.messages() == LINES


@pytest.mark.parametrize("fault", [AnswerLost(), NeverSent()], ids=repr)
def test_a_broken_connection_neither_loses_nor_repeats(
    writer: Writer, proxy: Proxy, shaky: Stream[object], fault: Fault
) -> None:
    writer.create("application/json")
    copy(shaky, LINES[:5])
    proxy.arm(fault, method="POST")
    copy(shaky)
    assert writer.messages() == LINES


def test_the_position_is_that_of_the_last_message_in_the_stream(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    with stream.producer("copy", resume=True) as producer:
        positions = [producer.position]
        producer.append("a", position="byte 1")
        producer.append("b", position="byte 2")
        producer.flush()
        positions.append(producer.position)
    with stream.producer("copy", resume=True) as producer:
        positions.append(producer.position)
    assert positions == [None, "byte 2", "byte 2"]


def test_the_position_does_not_go_back_where_answers_come_out_of_order(
    writer: Writer, proxy: Proxy, shaky: Stream[object]
) -> None:
    writer.create("application/json")
    with shaky.producer("copy", resume=True, max_batch_items=1) as producer:
        producer.append(LINES[0], position="1")
        producer.flush()
        proxy.arm(AnswerLost(), method="POST")
        for number, line in enumerate(LINES[1:5], 2):
            producer.append(line, position=str(number))
        producer.flush()
        assert producer.position == "5"
    assert writer.messages() == LINES[:5]


def overtaken(stream: Stream[object], values: Sequence[str], *, ahead: int, written: int = 0) -> None:
    """A run that writes `written` values, lets another one copy the first `ahead` lines, and writes on in batches."""
    with stream.producer("copy", resume=True, max_batch_items=2) as producer:
        for number, value in enumerate(values, 1):
            if number == written + 1:
                producer.flush()
                copy(stream, LINES[:ahead], batch=1)
            producer.append(value, position=str(number))


def test_whoever_resumes_fences_the_run_before(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    with pytest.raises(StaleEpoch):
        overtaken(stream, LINES[:3], written=1, ahead=2)
    assert writer.messages() == LINES[:2]


@pytest.mark.parametrize("ahead", [1, 4])
def test_of_two_that_resume_at_once_one_goes_on(writer: Writer, stream: Stream[object], ahead: int) -> None:
    """Both write in the same epoch from the same position on, in other batches."""
    writer.create("application/json")
    with pytest.raises((PositionMoved, ProducerReused)):
        overtaken(stream, ["other", "values"], ahead=ahead)
    assert writer.messages() == LINES[:ahead]


def test_a_name_that_has_written_without_positions_is_refused(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    writer.produce(b'"original"', "copy", 0, 0)
    with pytest.raises(ProducerReused, match="without positions"):
        copy(stream)


def test_the_stream_can_be_closed_with_a_position(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    with stream.producer("copy", resume=True) as producer:
        producer.append("a", position="1")
        producer.close("b", position="2")
    with stream.producer("copy", resume=True) as producer:
        assert producer.position == "2"
    assert writer.messages() == ["a", "b"]
    assert stream.head().closed


def test_the_stream_can_be_closed_before_anything_was_written(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    with stream.producer("copy", resume=True) as producer:
        producer.close()
    assert stream.head().closed


@pytest.mark.parametrize(
    "position, words",
    [(None, "needs a position"), ("", "1 to 1024"), ("é", "ASCII"), (" 1", "outer spaces"), ("x" * 1025, "1024")],
)
def test_a_position_that_cant_be_sent_is_refused(
    writer: Writer, stream: Stream[object], position: str | None, words: str
) -> None:
    writer.create("application/json")
    with stream.producer("copy", resume=True) as producer, pytest.raises(ValueError, match=words):
        producer.append("a", position=position)
    assert writer.messages() == []


def test_a_position_without_resuming_is_refused(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    with stream.producer() as producer:
        with pytest.raises(ValueError, match="resume=True"):
            producer.append("a", position="1")
        with pytest.raises(ValueError, match="resume=True"):
            producer.close(position="1")


def test_an_answer_with_an_invalid_number_is_refused(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("application/json")
    proxy.arm(Edited(headers={"Producer-Seq": "many"}), method="POST")
    with pytest.raises(InvalidAnswer, match="must be a number, got 'many'"):
        copy(shaky)


@pytest.mark.parametrize("beside", [{"epoch": 1}, {"seq": 1}, {"auto_claim": True}])
def test_resuming_finds_its_epoch_by_itself(stream: Stream[object], beside: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="determines the epoch"):
        stream.producer("copy", resume=True, **beside)  # type: ignore[arg-type]


def test_a_server_that_keeps_no_positions_is_told_at_once(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("application/json")
    proxy.arm(Edited(headers={"Stream-Extensions": "buckets"}), method="HEAD")
    with pytest.raises(Unsupported):
        copy(shaky)
