"""Follows over connections that break: the loop notices nothing, and gets every message once, in order."""

from collections.abc import AsyncIterator

import pytest

from everbrook.client import Mode
from everbrook.client._async.client import AsyncClient
from everbrook.client._async.concurrency import sleep
from everbrook.client._async.stream import AsyncStream
from everbrook.client.errors import InvalidAnswer, Unreachable
from everbrook.client.timeouts import ClientTuning
from tests.kit.faults.kinds import (
    AnswerLost,
    Buffered,
    Commented,
    CutAfter,
    Delayed,
    Edited,
    Fault,
    NeverSent,
    Reply,
    Stalled,
    StalledAfter,
    Trickled,
    Twice,
)
from tests.kit.faults.proxy import QUICKLY, Proxy
from tests.kit.faults.writer import Writer

pytestmark = pytest.mark.anyio

MODES: list[Mode] = ["sse", "long-poll", "auto"]
MESSAGES = [f'{{"n":{number}}}'.encode() for number in range(16)]
VALUES = [{"n": number} for number in range(16)]
FAULTS = [
    NeverSent(),
    NeverSent(rudely=True),
    AnswerLost(),
    CutAfter(0),
    CutAfter(40),
    CutAfter(40, rudely=True),
    Reply(500),
    Reply(502),
    Reply(503),
    Reply(429),
    Delayed(0.2),
    Trickled(9),
    Twice(),
]


@pytest.fixture
async def impatient(proxy: Proxy, writer: Writer) -> AsyncIterator[AsyncStream[object]]:
    """The stream through the proxy, for a client with short timeouts."""
    tuning = ClientTuning(first_event_secs=0.3, silence_secs=0.6)
    async with AsyncClient(proxy.origin, retry=QUICKLY, timeout_secs=2.0, tuning=tuning) as client:
        yield client.stream(writer.name)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("live", [False, True], ids=["catching up", "live"])
@pytest.mark.parametrize("fault", FAULTS, ids=repr)
async def test_a_follower_notices_nothing(
    writer: Writer,
    proxy: Proxy,
    shaky: AsyncStream[object],
    mode: Mode,
    live: bool,  # noqa: FBT001
    fault: Fault,
) -> None:
    if live and isinstance(fault, AnswerLost | Twice):
        pytest.skip("the answer to a live read ends with the stream")
    writer.create("application/json", *MESSAGES[:5]).later(*MESSAGES[5:], close=True, pause_secs=0.004)
    proxy.arm(fault, times=2, query="live=" if live else "offset=-1")
    assert await shaky.follow(mode=mode).all() == VALUES


@pytest.mark.parametrize("mode", ["auto", "long-poll"])
@pytest.mark.parametrize(
    "fault",
    [
        Reply(200, {"Content-Type": "text/html"}, b"<html>Welcome to the Wi-Fi</html>"),
        Reply(302, {"Location": "http://example.invalid/login"}),
        Reply(204),
        Reply(520),
    ],
    ids=["another page", "redirect", "no content", "a proxy whose server is down"],
)
async def test_a_follower_outlives_what_answers_in_the_place_of_its_stream(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], mode: Mode, fault: Fault
) -> None:
    """A laptop that wakes in another network, or a server that starts anew behind a proxy."""
    writer.create("application/json", *MESSAGES[:5]).later(*MESSAGES[5:], close=True, pause_secs=0.004)
    proxy.arm(fault, times=3, query="live=")
    assert await shaky.follow(mode=mode).all() == VALUES


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/octet-stream"])
async def test_a_cut_at_any_byte_loses_and_repeats_nothing(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], mode: Mode, content_type: str
) -> None:
    """The cuts fall before, between and within events, and within their lines."""
    writer.create(content_type)
    for size in range(1, 500, 31):
        proxy.arm(CutAfter(size, rudely=size % 2 == 0), query="live=")
    writer.later(*MESSAGES, close=True, pause_secs=0.015, once=lambda: proxy.asked("GET", "live="))
    reader = shaky.follow(mode=mode)
    if content_type == "application/json":
        assert await reader.all() == VALUES
    else:
        assert await reader.bytes() == b"".join(MESSAGES)


@pytest.mark.parametrize("mode", MODES)
async def test_connections_that_all_break_at_once_are_made_anew(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], mode: Mode
) -> None:
    writer.create("application/json")
    writer.later(*MESSAGES, close=True, pause_secs=0.01)
    got = []
    async for value in shaky.follow(mode=mode):
        got.append(value)
        if len(got) % 7 == 0:
            proxy.cut_all()
    assert got == VALUES


@pytest.mark.parametrize("mode", MODES)
async def test_a_follower_that_was_answered_never_gives_up(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], mode: Mode
) -> None:
    writer.create("application/json", MESSAGES[0])
    got = []
    async for value in shaky.follow(mode=mode):
        got.append(value)
        if len(got) == 1:
            proxy.arm(NeverSent(), times=10)
            proxy.arm(Reply(503), times=10)
            writer.later(*MESSAGES[1:], close=True, pause_secs=0.002)
    assert got == VALUES
    assert len(proxy.asked("GET")) > 20


@pytest.mark.parametrize("mode", MODES)
async def test_a_follower_that_was_never_answered_gives_up(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], mode: Mode
) -> None:
    writer.create("application/json")
    proxy.arm(NeverSent(), times=100)
    with pytest.raises(Unreachable, match=writer.name):
        await shaky.follow(mode=mode).all()


@pytest.mark.parametrize("mode", ["sse", "auto"])
async def test_a_connection_that_has_gone_silent_is_left(
    writer: Writer, proxy: Proxy, impatient: AsyncStream[object], mode: Mode
) -> None:
    writer.create("application/json")
    proxy.arm(StalledAfter(150), query="live=sse")
    writer.later(*MESSAGES, close=True, pause_secs=0.01, once=lambda: proxy.asked("GET", "live=sse"))
    assert await impatient.follow(mode=mode).all() == VALUES


async def test_events_that_are_held_back_lead_to_long_polls(
    writer: Writer, proxy: Proxy, impatient: AsyncStream[object]
) -> None:
    writer.create("application/json")
    proxy.arm(Buffered(), times=100, query="live=sse")
    writer.later(*MESSAGES, close=True, pause_secs=0.05, once=lambda: proxy.asked("GET", "live=sse"))
    assert await impatient.follow().all() == VALUES
    assert proxy.asked("GET", "live=long-poll")


async def test_events_that_never_begin_lead_to_long_polls(
    writer: Writer, proxy: Proxy, impatient: AsyncStream[object]
) -> None:
    writer.create("application/json")
    proxy.arm(Stalled(), times=100, query="live=sse")
    writer.later(*MESSAGES, close=True, pause_secs=0.05, once=lambda: proxy.asked("GET", "live=sse"))
    assert await impatient.follow().all() == VALUES
    assert len(proxy.asked("GET", "live=sse")) == 1


async def test_comments_without_events_lead_to_long_polls(
    writer: Writer, proxy: Proxy, impatient: AsyncStream[object]
) -> None:
    writer.create("application/json")
    proxy.arm(Commented(), times=100, query="live=sse")
    writer.later(*MESSAGES, close=True, pause_secs=0.05, once=lambda: proxy.asked("GET", "live=sse"))
    assert await impatient.follow().all() == VALUES
    assert (len(proxy.asked("GET", "live=sse")), bool(proxy.asked("GET", "live=long-poll"))) == (1, True)


async def test_whoever_insists_on_events_asks_again_where_only_comments_come(
    writer: Writer, proxy: Proxy, impatient: AsyncStream[object]
) -> None:
    writer.create("application/json")
    proxy.arm(Commented(), times=2, query="live=sse")
    writer.later(*MESSAGES, close=True, pause_secs=0.01, once=lambda: len(proxy.asked("GET", "live=sse")) > 2)
    assert await impatient.follow(mode="sse").all() == VALUES
    assert not proxy.asked("GET", "live=long-poll")


@pytest.mark.parametrize(
    "fault",
    [Reply(400, {}, b"no events here"), Reply(200, {"Content-Type": "application/json"}, b"[]"), CutAfter(0)],
    ids=repr,
)
async def test_where_there_are_no_events_there_are_long_polls(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], fault: Fault
) -> None:
    writer.create("application/json", *MESSAGES[:3])
    proxy.arm(fault, times=100, query="live=sse")
    writer.later(*MESSAGES[3:], close=True, pause_secs=0.01, once=lambda: proxy.asked("GET", "live=long-poll"))
    assert await shaky.follow().all() == VALUES
    assert proxy.asked("GET", "live=long-poll")


async def test_whoever_insists_on_events_and_has_seen_some_waits_for_them_to_come_back(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("application/json", *MESSAGES[:3])
    values = aiter(shaky.follow(mode="sse"))
    got = [await anext(values) for _ in range(3)]
    writer.later(MESSAGES[3], pause_secs=0.05, once=lambda: proxy.asked("GET", "live=sse"))
    got.append(await anext(values))
    proxy.arm(Reply(200, {"Content-Type": "text/html"}, b"<html>Welcome</html>"), times=2, query="live=sse")
    proxy.cut_all()
    writer.later(*MESSAGES[4:], close=True, pause_secs=0.01)
    assert [*got, *[value async for value in values]] == VALUES


async def test_whoever_insists_on_events_is_told_that_there_are_none(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("application/json", *MESSAGES[:3])
    headers = {"Content-Type": "application/json", "Stream-Next-Offset": writer.tail}
    proxy.arm(Reply(200, headers, b"[]"), times=100, query="live=sse")
    with pytest.raises(InvalidAnswer, match="not answered with events"):
        await shaky.follow(mode="sse").all()


@pytest.mark.parametrize("mode", MODES)
async def test_a_program_that_stops_and_starts_goes_on(writer: Writer, shaky: AsyncStream[object], mode: Mode) -> None:
    writer.create("application/json").later(*MESSAGES, close=True, pause_secs=0.002)
    got: list[object] = []
    offset = "-1"
    while len(got) < len(VALUES):
        reader = shaky.follow(offset, mode=mode)
        async for value in reader:
            got.append(value)
            if len(got) % 4 == 0:
                break
        offset = reader.offset
    assert got == VALUES


class Kept:
    """A store of offsets, in memory."""

    def __init__(self) -> None:
        self.offset: str | None = None

    def load(self) -> str | None:
        return self.offset

    def save(self, offset: str) -> None:
        self.offset = offset


@pytest.mark.parametrize("mode", MODES)
async def test_a_kept_offset_is_gone_on_from(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], mode: Mode
) -> None:
    """What was in hand when the loop was left counts as not handled: it comes again, and nothing else does."""
    writer.create("application/json").later(*MESSAGES, close=True, pause_secs=0.002)
    kept = Kept()
    handled: list[object] = []
    while len(handled) < len(VALUES):
        proxy.arm(CutAfter(60), query="live=")
        run: list[object] = []
        async for value in shaky.follow(mode=mode, offsets=kept):
            if len(run) == 5:
                break
            run.append(value)
        handled += run
        await sleep(0.02)  # async only
    assert handled == VALUES


@pytest.mark.parametrize("mode", MODES)
async def test_a_cursor_is_passed_on(writer: Writer, proxy: Proxy, shaky: AsyncStream[object], mode: Mode) -> None:
    writer.create("application/json")
    writer.later(*MESSAGES[:8], close=True, pause_secs=0.02, once=lambda: proxy.asked("GET", "live="))
    proxy.arm(CutAfter(200), query="live=")
    assert await shaky.follow(mode=mode).all() == VALUES[:8]
    assert proxy.asked("GET", "cursor=")


async def test_a_loss_is_seen_by_the_comparison_that_all_of_these_make(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    """The protocol has no sum over the bytes of a page: what a proxy takes out of it in silence is gone."""
    writer.create("text/plain", b"0123456789").close()
    proxy.arm(Edited(lambda body: body[3:]))
    assert await shaky.follow().text() == "3456789"
