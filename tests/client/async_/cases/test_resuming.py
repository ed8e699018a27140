"""Producers that resume: what another run of a writer finds stored, and goes on behind (Producer-Position, ours)."""

from collections.abc import Sequence

import pytest

from everbrook.client._async.stream import AsyncStream
from everbrook.client.errors import InvalidAnswer, ProducerReused, Unsupported
from everbrook.protocol.errors import PositionMoved, StaleEpoch
from tests.kit.faults.kinds import AnswerLost, Edited, Fault, NeverSent
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

pytestmark = pytest.mark.anyio

LINES = [f"line {number}" for number in range(1, 21)]


async def copy(stream: AsyncStream[object], lines: Sequence[str] = LINES, *, batch: int = 3) -> None:
    """Copy lines, from behind those that are stored, with their numbers as positions."""
    async with stream.producer("copy", resume=True, max_batch_items=batch) as producer:
        stored = int(producer.position or 0)
        for number, line in enumerate(lines[stored:], stored + 1):
            await producer.append(line, position=str(number))


async def test_another_run_goes_on_where_the_one_before_has_ended(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("application/json")
    for lines, batch in ((LINES[:5], 2), (LINES[:5], 3), (LINES[:13], 5), (LINES, 1)):
        await copy(stream, lines, batch=batch)
    assert writer.messages() == LINES


@pytest.mark.parametrize("fault", [AnswerLost(), NeverSent()], ids=repr)
async def test_a_broken_connection_neither_loses_nor_repeats(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], fault: Fault
) -> None:
    writer.create("application/json")
    await copy(shaky, LINES[:5])
    proxy.arm(fault, method="POST")
    await copy(shaky)
    assert writer.messages() == LINES


async def test_the_position_is_that_of_the_last_message_in_the_stream(
    writer: Writer, stream: AsyncStream[object]
) -> None:
    writer.create("application/json")
    async with stream.producer("copy", resume=True) as producer:
        positions = [producer.position]
        await producer.append("a", position="byte 1")
        await producer.append("b", position="byte 2")
        await producer.flush()
        positions.append(producer.position)
    async with stream.producer("copy", resume=True) as producer:
        positions.append(producer.position)
    assert positions == [None, "byte 2", "byte 2"]


async def test_the_position_does_not_go_back_where_answers_come_out_of_order(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("application/json")
    async with shaky.producer("copy", resume=True, max_batch_items=1) as producer:
        await producer.append(LINES[0], position="1")
        await producer.flush()
        proxy.arm(AnswerLost(), method="POST")
        for number, line in enumerate(LINES[1:5], 2):
            await producer.append(line, position=str(number))
        await producer.flush()
        assert producer.position == "5"
    assert writer.messages() == LINES[:5]


async def overtaken(stream: AsyncStream[object], values: Sequence[str], *, ahead: int, written: int = 0) -> None:
    """A run that writes `written` values, lets another one copy the first `ahead` lines, and writes on in batches."""
    async with stream.producer("copy", resume=True, max_batch_items=2) as producer:
        for number, value in enumerate(values, 1):
            if number == written + 1:
                await producer.flush()
                await copy(stream, LINES[:ahead], batch=1)
            await producer.append(value, position=str(number))


async def test_whoever_resumes_fences_the_run_before(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("application/json")
    with pytest.raises(StaleEpoch):
        await overtaken(stream, LINES[:3], written=1, ahead=2)
    assert writer.messages() == LINES[:2]


@pytest.mark.parametrize("ahead", [1, 4])
async def test_of_two_that_resume_at_once_one_goes_on(writer: Writer, stream: AsyncStream[object], ahead: int) -> None:
    """Both write in the same epoch from the same position on, in other batches."""
    writer.create("application/json")
    with pytest.raises((PositionMoved, ProducerReused)):
        await overtaken(stream, ["other", "values"], ahead=ahead)
    assert writer.messages() == LINES[:ahead]


async def test_a_name_that_has_written_without_positions_is_refused(
    writer: Writer, stream: AsyncStream[object]
) -> None:
    writer.create("application/json")
    writer.produce(b'"original"', "copy", 0, 0)
    with pytest.raises(ProducerReused, match="without positions"):
        await copy(stream)


async def test_the_stream_can_be_closed_with_a_position(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("application/json")
    async with stream.producer("copy", resume=True) as producer:
        await producer.append("a", position="1")
        await producer.close("b", position="2")
    async with stream.producer("copy", resume=True) as producer:
        assert producer.position == "2"
    assert writer.messages() == ["a", "b"]
    assert (await stream.head()).closed


async def test_the_stream_can_be_closed_before_anything_was_written(
    writer: Writer, stream: AsyncStream[object]
) -> None:
    writer.create("application/json")
    async with stream.producer("copy", resume=True) as producer:
        await producer.close()
    assert (await stream.head()).closed


@pytest.mark.parametrize(
    "position, words",
    [(None, "needs a position"), ("", "1 to 1024"), ("é", "ASCII"), (" 1", "outer spaces"), ("x" * 1025, "1024")],
)
async def test_a_position_that_cant_be_sent_is_refused(
    writer: Writer, stream: AsyncStream[object], position: str | None, words: str
) -> None:
    writer.create("application/json")
    async with stream.producer("copy", resume=True) as producer:
        with pytest.raises(ValueError, match=words):
            await producer.append("a", position=position)
    assert writer.messages() == []


async def test_a_position_without_resuming_is_refused(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("application/json")
    async with stream.producer() as producer:
        with pytest.raises(ValueError, match="resume=True"):
            await producer.append("a", position="1")
        with pytest.raises(ValueError, match="resume=True"):
            await producer.close(position="1")


async def test_an_answer_with_an_invalid_number_is_refused(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("application/json")
    proxy.arm(Edited(headers={"Producer-Seq": "many"}), method="POST")
    with pytest.raises(InvalidAnswer, match="must be a number, got 'many'"):
        await copy(shaky)


@pytest.mark.parametrize("beside", [{"epoch": 1}, {"seq": 1}, {"auto_claim": True}])
async def test_resuming_finds_its_epoch_by_itself(stream: AsyncStream[object], beside: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="determines the epoch"):
        stream.producer("copy", resume=True, **beside)  # type: ignore[arg-type]


async def test_a_server_that_keeps_no_positions_is_told_at_once(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("application/json")
    proxy.arm(Edited(headers={"Stream-Extensions": "buckets"}), method="HEAD")
    with pytest.raises(Unsupported):
        await copy(shaky)
