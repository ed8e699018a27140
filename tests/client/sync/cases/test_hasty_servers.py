# Written by tools/mirror.py from tests/client/async_/cases/test_hasty_servers.py: change that file, not this one.
"""Servers that do not wait where they should: a follower asks them again, and does not hammer them."""

import pytest

from everbrook.client import Mode
from everbrook.client._sync.client import Client
from everbrook.client._sync.concurrency import sleep, spawn
from everbrook.client._sync.stream import Stream
from tests.kit.faults.exchange import Request
from tests.kit.faults.kinds import Fault, Reply, Sound
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

TAIL = f"{0:016d}"
CONTROL = b'event: control\ndata: {"streamNextOffset": "%b", "upToDate": true}\n\n' % TAIL.encode()
NOTHING = Reply(204, {"Stream-Next-Offset": TAIL, "Stream-Up-To-Date": "true"})
NO_EVENTS = Reply(200, {"Content-Type": "text/event-stream"}, CONTROL)


def hasty(request: Request) -> Fault:
    if "live=sse" in request.target:
        return NO_EVENTS
    return NOTHING if "live=" in request.target else Sound()


def asked_while_following(proxy: Proxy, shaky: Stream[object], mode: Mode) -> int:
    """Follow until it has asked a few times, and give how often it asked in the first second."""
    reader = shaky.follow(mode=mode)
    following = spawn(reader.all, name="following")
    sleep(1.0)
    asked = len(proxy.asked("GET"))
    # A slow machine asks less often.
    while len(proxy.asked("GET")) < 3:
        sleep(0.01)
    reader.close()
    following.join()
    return asked


@pytest.mark.parametrize("mode", ["auto", "sse", "long-poll"])
def test_a_server_that_does_not_wait_is_asked_with_pauses(
    writer: Writer, proxy: Proxy, shaky: Stream[object], mode: Mode
) -> None:
    writer.create("application/json")
    proxy.follow_plan(hasty)
    assert asked_while_following(proxy, shaky, mode) <= 60


@pytest.mark.timing
def test_events_that_end_at_once_lead_to_long_polls(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    """On a busy machine an answer may take so long that it does not end at once."""
    writer.create("application/json")
    proxy.follow_plan(hasty)
    asked_while_following(proxy, shaky, "auto")
    assert len(proxy.asked("GET", "live=sse")) == 3
    assert proxy.asked("GET", "live=long-poll")


def test_a_page_that_leads_nowhere_ends_a_read(writer: Writer, proxy: Proxy, client: Client) -> None:
    writer.create("application/json")
    proxy.follow_plan(
        lambda _request: Reply(200, {"Stream-Next-Offset": TAIL, "Content-Type": "application/json"}, b"[]")
    )
    with Client(proxy.origin) as shaky:
        assert shaky.stream(writer.name).read().all() == []
    assert len(proxy.requests) == 2
