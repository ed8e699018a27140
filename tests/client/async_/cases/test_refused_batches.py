"""A batch that is refused ends its producer: those behind it can't arrive, so they are not sent for ever."""

import pytest

from everbrook.client._async.concurrency import sleep
from everbrook.client._async.producer import AsyncProducer
from everbrook.client._async.stream import AsyncStream
from everbrook.protocol.errors import PayloadTooLarge
from tests.kit.faults.kinds import Reply
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

pytestmark = pytest.mark.anyio


async def refused(proxy: Proxy, shaky: AsyncStream[object]) -> AsyncProducer[object]:
    """A producer whose second batch is refused, with others behind it."""
    producer = shaky.producer(max_batch_items=1, linger_secs=0)
    await producer.append(0)
    await producer.flush()
    proxy.arm(Reply(413, {}, b"too large"), method="POST")
    for number in range(1, 6):
        await producer.append(number)
    return producer


async def test_a_refusal_is_told_by_everything_that_follows(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("application/json")
    producer = await refused(proxy, shaky)
    with pytest.raises(PayloadTooLarge):
        await producer.flush()
    with pytest.raises(PayloadTooLarge):
        await producer.append(6)
    with pytest.raises(PayloadTooLarge):
        await producer.close()


async def test_nothing_more_is_asked_after_a_refusal(writer: Writer, proxy: Proxy, shaky: AsyncStream[object]) -> None:
    writer.create("application/json")
    producer = await refused(proxy, shaky)
    with pytest.raises(PayloadTooLarge):
        await producer.flush()
    await sleep(0.3)
    asked = len(proxy.requests)
    await sleep(0.3)
    arrived = writer.messages()
    assert len(proxy.requests) == asked
    assert arrived in ([0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4])  # whichever came first was refused
