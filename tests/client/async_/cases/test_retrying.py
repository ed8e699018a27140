"""What may pass is tried again, what will not is raised at once, and nothing goes on for ever."""

import time

import pytest

from everbrook.client._async.stream import AsyncStream
from everbrook.client.errors import Unreachable
from everbrook.protocol.errors import BadRequest, ProtocolError, StreamNotFound
from tests.kit.faults.kinds import AnswerLost, CutAfter, Delayed, Fault, NeverSent, Reply, Stalled, Trickled
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

pytestmark = pytest.mark.anyio

PASSING = [
    Reply(500),
    Reply(502),
    Reply(503),
    Reply(504),
    Reply(429),
    Reply(503, {"Content-Type": "text/html"}, b"<html>down for maintenance</html>"),
    NeverSent(),
    NeverSent(rudely=True),
    AnswerLost(),
    AnswerLost(rudely=True),
    CutAfter(3),
    CutAfter(3, rudely=True),
    Delayed(0.2),
    Delayed(0.05, Reply(503)),
    Trickled(1),
]


@pytest.mark.parametrize("fault", PASSING, ids=repr)
async def test_a_read_outlives_what_passes(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], fault: Fault
) -> None:
    writer.create("text/plain", b"every ", b"word")
    proxy.arm(fault)
    assert await shaky.read().text() == "every word"


@pytest.mark.parametrize("fault", PASSING, ids=repr)
async def test_creating_looking_and_deleting_outlive_it_too(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], fault: Fault
) -> None:
    for method in ("PUT", "HEAD", "DELETE"):
        proxy.arm(fault, method=method)
    assert (await shaky.create(content_type="text/plain", exist_ok=False)).content_type == "text/plain"
    assert await shaky.exists()
    await shaky.delete()
    assert not await shaky.exists()


@pytest.mark.parametrize("fault", PASSING, ids=repr)
async def test_closing_outlives_it_too(writer: Writer, proxy: Proxy, shaky: AsyncStream[object], fault: Fault) -> None:
    writer.create("text/plain", b"end")
    proxy.arm(fault, method="POST")
    assert await shaky.close() == writer.tail
    assert writer.content() == b"end"


async def test_several_failures_in_a_row_are_outlived(writer: Writer, proxy: Proxy, shaky: AsyncStream[object]) -> None:
    writer.create("text/plain", b"persisted")
    for fault in (Reply(500), NeverSent(), Reply(503), CutAfter(2)):
        proxy.arm(fault)
    assert await shaky.read().text() == "persisted"
    assert len(proxy.asked("GET")) == 5


async def test_a_stalled_read_is_given_up_and_made_again(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("text/plain", b"at last")
    proxy.arm(Stalled())
    assert await shaky.read().text() == "at last"


@pytest.mark.parametrize("status", [429, 503])
async def test_it_waits_as_long_as_it_is_told(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], status: int
) -> None:
    writer.create("text/plain", b"later")
    proxy.arm(Reply(status, {"Retry-After": "1"}))
    begin = time.monotonic()
    assert await shaky.read().text() == "later"
    assert time.monotonic() - begin >= 1.0


@pytest.mark.parametrize("status", [429, 503])
async def test_an_append_waits_too(writer: Writer, proxy: Proxy, shaky: AsyncStream[object], status: int) -> None:
    writer.create()
    proxy.arm(Reply(status, {"Retry-After": "1"}), method="POST")
    begin = time.monotonic()
    await shaky.append("late")
    assert time.monotonic() - begin >= 1.0
    assert writer.content() == b"late"


async def test_a_date_to_wait_for_that_is_past_is_no_reason_to_wait(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("text/plain", b"now")
    proxy.arm(Reply(503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}))
    assert await shaky.read().text() == "now"


async def test_what_does_not_pass_ends_with_the_last_refusal(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("text/plain", b"never")
    proxy.arm(Reply(500, {}, b"no room"), times=100)
    with pytest.raises(ProtocolError, match="no room") as raised:
        await shaky.read().all()
    assert raised.value.status == 500
    assert len(proxy.asked("GET")) == 6


async def test_a_server_that_never_answers_is_unreachable(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create()
    proxy.arm(NeverSent(), times=100)
    with pytest.raises(Unreachable, match=f"(?s){writer.name}.*6 attempts"):
        await shaky.head()


async def test_what_is_not_there_is_asked_for_once(writer: Writer, proxy: Proxy, shaky: AsyncStream[object]) -> None:
    with pytest.raises(StreamNotFound, match=writer.name):
        await shaky.read().all()
    assert len(proxy.asked("GET")) == 1


async def test_what_makes_no_sense_is_asked_for_once(writer: Writer, proxy: Proxy, shaky: AsyncStream[object]) -> None:
    writer.create("text/plain", b"data")
    proxy.arm(Reply(400, {}, b"no such parameter"))
    with pytest.raises(BadRequest, match="no such parameter"):
        await shaky.read().all()
    assert len(proxy.asked("GET")) == 1


async def test_only_the_method_that_fails_is_repeated(writer: Writer, proxy: Proxy, shaky: AsyncStream[object]) -> None:
    writer.create()
    proxy.arm(Reply(503), method="POST")
    assert await shaky.read().text() == ""
    await shaky.append("method-filtered")
    assert await shaky.read().text() == "method-filtered"
    assert len(proxy.asked("POST")) == 2
