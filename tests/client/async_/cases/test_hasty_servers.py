"""Servers that do not wait where they should: a follower asks them again, and does not hammer them."""

import pytest

from everbrook.client import Mode
from everbrook.client._async.client import AsyncClient
from everbrook.client._async.concurrency import sleep, spawn
from everbrook.client._async.stream import AsyncStream
from tests.kit.faults.exchange import Request
from tests.kit.faults.kinds import Fault, Reply, Sound
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

pytestmark = pytest.mark.anyio

TAIL = f"{0:016d}"
CONTROL = b'event: control\ndata: {"streamNextOffset": "%b", "upToDate": true}\n\n' % TAIL.encode()
NOTHING = Reply(204, {"Stream-Next-Offset": TAIL, "Stream-Up-To-Date": "true"})
NO_EVENTS = Reply(200, {"Content-Type": "text/event-stream"}, CONTROL)


def hasty(request: Request) -> Fault:
    if "live=sse" in request.target:
        return NO_EVENTS
    return NOTHING if "live=" in request.target else Sound()


async def asked_while_following(proxy: Proxy, shaky: AsyncStream[object], mode: Mode) -> int:
    """Follow until it has asked a few times, and give how often it asked in the first second."""
    reader = shaky.follow(mode=mode)
    following = spawn(reader.all, name="following")
    await sleep(1.0)
    asked = len(proxy.asked("GET"))
    # A slow machine asks less often.
    while len(proxy.asked("GET")) < 3:
        await sleep(0.01)
    await reader.close()
    await following.join()
    return asked


@pytest.mark.parametrize("mode", ["auto", "sse", "long-poll"])
async def test_a_server_that_does_not_wait_is_asked_with_pauses(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], mode: Mode
) -> None:
    writer.create("application/json")
    proxy.follow_plan(hasty)
    assert await asked_while_following(proxy, shaky, mode) <= 60


@pytest.mark.timing
async def test_events_that_end_at_once_lead_to_long_polls(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    """On a busy machine an answer may take so long that it does not end at once."""
    writer.create("application/json")
    proxy.follow_plan(hasty)
    await asked_while_following(proxy, shaky, "auto")
    assert len(proxy.asked("GET", "live=sse")) == 3
    assert proxy.asked("GET", "live=long-poll")


async def test_a_page_that_leads_nowhere_ends_a_read(writer: Writer, proxy: Proxy, client: AsyncClient) -> None:
    writer.create("application/json")
    proxy.follow_plan(
        lambda _request: Reply(200, {"Stream-Next-Offset": TAIL, "Content-Type": "application/json"}, b"[]")
    )
    async with AsyncClient(proxy.origin) as shaky:
        assert await shaky.stream(writer.name).read().all() == []
    assert len(proxy.requests) == 2
