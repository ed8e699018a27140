"""Plain appends over connections that break: once, or a clear word that it is not known. Never twice in silence."""

import pytest

from everbrook.client._async.client import AsyncClient
from everbrook.client._async.stream import AsyncStream
from everbrook.client.errors import AppendUncertain, Unreachable
from everbrook.client.retry import Retry
from everbrook.protocol.errors import ProtocolError
from tests.kit.faults.kinds import AnswerLost, Delayed, Fault, NeverSent, Reply, Stalled, Twice
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

pytestmark = pytest.mark.anyio

DOUBTFUL = [
    NeverSent(),
    NeverSent(rudely=True),
    AnswerLost(),
    AnswerLost(rudely=True),
    Stalled(),
    Stalled(asked=True),
    Reply(502),
    Reply(504),
]
HARMLESS = [Reply(500), Reply(503), Reply(429), Delayed(0.1), Delayed(0.05, Reply(503))]


@pytest.mark.parametrize("fault", DOUBTFUL, ids=repr)
async def test_what_may_have_happened_is_not_repeated(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], fault: Fault
) -> None:
    writer.create()
    proxy.arm(fault, method="POST")
    with pytest.raises(AppendUncertain, match=f"(?s){writer.name}.*may have processed it or not"):
        await shaky.append("word")
    assert len(proxy.asked("POST")) == 1
    happened = isinstance(fault, AnswerLost) or (isinstance(fault, Stalled) and fault.asked)
    assert writer.content() == (b"word" if happened else b"")


@pytest.mark.parametrize("fault", HARMLESS, ids=repr)
async def test_what_did_not_happen_is_repeated(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], fault: Fault
) -> None:
    writer.create()
    proxy.arm(fault, method="POST", times=3)
    await shaky.append("word")
    assert writer.content() == b"word"


async def test_a_refused_connection_is_tried_again(writer: Writer, proxy: Proxy) -> None:
    nowhere = AsyncClient("http://127.0.0.1:9", retry=Retry(3, 0.01))
    with pytest.raises(Unreachable, match="3 attempts"):
        await nowhere.stream("x", content_type="text/plain").append("word")
    await nowhere.close()


async def test_a_lasting_refusal_is_raised_as_it_came(writer: Writer, proxy: Proxy, shaky: AsyncStream[object]) -> None:
    writer.create()
    proxy.arm(Reply(503, {}, b"closed for good"), method="POST", times=100)
    with pytest.raises(ProtocolError, match="closed for good"):
        await shaky.append("word")
    assert writer.content() == b""


async def test_many_at_once_are_told_what_is_not_known(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("application/json")
    proxy.arm(AnswerLost(), method="POST")
    with pytest.raises(AppendUncertain):
        await shaky.extend(range(1000))
    assert writer.messages() == list(range(1000))


async def test_closing_with_a_message_is_an_append_too(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("application/json")
    proxy.arm(AnswerLost(), method="POST")
    with pytest.raises(AppendUncertain):
        await shaky.close("last")
    assert writer.messages() == ["last"]
    assert await shaky.close() == writer.tail


@pytest.mark.parametrize("fault", [AnswerLost(), NeverSent()], ids=repr)
async def test_a_condition_leaves_no_doubt_for_long(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], fault: Fault
) -> None:
    """With `if_match` whoever is in doubt may simply try again: at worst the tail has moved, by this very append."""
    writer.create("application/json", b"1")
    proxy.arm(fault, method="POST")
    try:
        await shaky.append(2, if_match=writer.tail)
    except AppendUncertain:
        if writer.messages() == [1]:
            await shaky.append(2, if_match=writer.tail)
    assert writer.messages() == [1, 2]


async def test_a_proxy_that_repeats_shows_why_there_are_producers(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("application/json")
    proxy.arm(Twice(), times=2, method="POST")
    await shaky.append("plain")
    async with shaky.producer() as producer:
        await producer.append("produced")
    assert writer.messages() == ["plain", "plain", "produced"]
