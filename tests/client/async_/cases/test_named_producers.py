"""Producers with a name of their own: a lost answer is no other producer, and another producer is no lost answer."""

import pytest

from everbrook.client._async.stream import AsyncStream
from everbrook.client.errors import AppendUncertain, ProducerReused
from tests.kit.faults.kinds import AnswerLost, Edited, Fault, NeverSent
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

pytestmark = pytest.mark.anyio


async def produce(stream: AsyncStream[object], values: list[object], *, auto_claim: bool = False) -> None:
    async with stream.producer("named", max_batch_items=1, auto_claim=auto_claim) as producer:
        for value in values:
            await producer.append(value)


@pytest.mark.parametrize("fault", [AnswerLost(), NeverSent()], ids=repr)
@pytest.mark.parametrize("auto_claim", [False, True])
async def test_the_first_answer_may_be_lost(
    writer: Writer,
    proxy: Proxy,
    shaky: AsyncStream[object],
    fault: Fault,
    auto_claim: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    writer.create("application/json")
    proxy.arm(fault, method="POST")
    await produce(shaky, [1, 2, 3], auto_claim=auto_claim)
    assert writer.messages() == [1, 2, 3]


async def test_a_name_that_was_used_before_is_noticed(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("application/json")
    await produce(stream, [1, 2, 3])
    with pytest.raises(ProducerReused, match="'named' has written in epoch 0 before"):
        await produce(stream, [4])
    assert writer.messages() == [1, 2, 3]


async def test_a_name_that_was_used_before_is_noticed_though_the_connection_breaks(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("application/json")
    await produce(shaky, [1])
    proxy.arm(NeverSent(), method="POST")
    with pytest.raises(ProducerReused, match="'named' has written in epoch 0 before"):
        await produce(shaky, [4])
    assert writer.messages() == [1]


async def test_where_nobody_tells_of_producers_a_first_answer_that_is_lost_is_told(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    """The one before has sent one batch too: nothing tells a repetition of that from one of this."""
    writer.create("application/json")
    await produce(shaky, [1])
    proxy.arm(Edited(headers={"Stream-Extensions": None, "Producer-Epoch": None}), method="HEAD")
    proxy.arm(NeverSent(), method="POST")
    with pytest.raises(AppendUncertain, match="another producer uses the id 'named'"):
        await produce(shaky, [4])
    assert writer.messages() == [1]


async def test_whoever_takes_over_loses_nothing(writer: Writer, proxy: Proxy, shaky: AsyncStream[object]) -> None:
    writer.create("application/json")
    await produce(shaky, [1, 2], auto_claim=True)
    proxy.arm(AnswerLost(), method="POST")
    await produce(shaky, [3, 4], auto_claim=True)
    assert writer.messages() == [1, 2, 3, 4]


async def test_two_that_take_over_at_the_same_moment_both_arrive(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("application/json")
    at_once = [stream.producer("named", epoch=7, auto_claim=True) for _ in range(2)]
    for number, producer in enumerate(at_once):
        async with producer:
            await producer.append(number)
    assert writer.messages() == [0, 1]
