"""What `tee` promises to programs on asyncio: cancelled tasks, tokens that are seen at once, few requests."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from everbrook import AsyncClient, AsyncReader, AsyncStream
from everbrook.client._async.recorder import Recording, record as record_as
from everbrook.client.tee import record, tee
from everbrook.protocol.errors import StaleEpoch
from tests.kit.server_process import serving

pytestmark = pytest.mark.anyio

SOON_SECS = 0.5
PATIENCE_SECS = 60.0


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def one_word_and_a_long_thought(thinking: asyncio.Event) -> AsyncIterator[str]:
    yield "Well"
    thinking.set()
    await asyncio.sleep(60)


async def everything(stream: AsyncStream[Any]) -> list[Any]:
    """The messages up to the end of the stream, which has to come."""
    async with asyncio.timeout(PATIENCE_SECS):
        return await stream.follow().all()


async def consume(passed: AsyncIterator[Any]) -> None:
    async for _ in passed:
        pass


async def test_a_cancelled_caller_stops_the_events_and_the_stream_says_so(stream: AsyncStream[Any]) -> None:
    thinking = asyncio.Event()
    caller = asyncio.create_task(consume(tee(one_word_and_a_long_thought(thinking), stream)))
    await thinking.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    *words, last = await everything(stream)
    assert (words, last["error"]["type"]) == (["Well"], "cancelled")


async def test_a_cancelled_caller_of_detached_events_leaves_them_alone(stream: AsyncStream[Any]) -> None:
    go_on = asyncio.Event()

    async def words() -> AsyncIterator[str]:
        yield "Well"
        await go_on.wait()
        yield ", yes."

    caller = asyncio.create_task(consume(tee(words(), stream, detach=True)))
    await asyncio.sleep(0.05)
    caller.cancel()
    go_on.set()
    assert await everything(stream) == ["Well", ", yes."]


@pytest.mark.parametrize("detach", [False, True])
async def test_a_caller_who_leaves_and_closes_the_client_leaves_no_stream_open(
    server: str,
    stream: AsyncStream[Any],
    detach: bool,  # noqa: FBT001 - a case
) -> None:
    """What `break` leaves behind is ended by the loop, some time later."""
    async with AsyncClient(server) as client:
        async for event in tee(range(1000), client.stream(stream.name), detach=detach):
            if event == 2:
                break
    assert (await stream.head()).closed
    recorded = await stream.read().all()
    assert recorded[:3] == [0, 1, 2]
    assert detach or recorded[3]["error"]["type"] == "cancelled"


async def test_every_token_is_seen_by_readers_while_the_model_thinks_about_the_next(stream: AsyncStream[Any]) -> None:
    said = asyncio.Queue[str]()
    await stream.create()

    async def words() -> AsyncIterator[str]:
        while (word := await said.get()) != "":
            yield word

    caller = asyncio.create_task(record(words(), stream))
    follower = aiter(stream.follow())
    for word in ("Well", ", let", " me think"):
        said.put_nowait(word)
        async with asyncio.timeout(SOON_SECS):
            assert await anext(follower) == word
    said.put_nowait("")
    await caller


async def test_of_two_who_claim_a_stream_only_the_first_writes(stream: AsyncStream[Any]) -> None:
    thinking = asyncio.Event()
    claimed = Recording(claim=True)
    first = asyncio.create_task(record_as(one_word_and_a_long_thought(thinking), stream, claimed))
    assert await anext(aiter(await created(stream))) == "Well"
    with pytest.raises(StaleEpoch):
        await record_as(["Me", " too"], stream, claimed)
    first.cancel()
    await asyncio.wait({first})
    well, last = await stream.read().all()
    assert (well, last["error"]["type"]) == ("Well", "cancelled")


async def created(stream: AsyncStream[Any]) -> AsyncReader[Any]:
    await stream.create()
    return stream.follow()


async def test_a_fast_model_does_not_make_a_request_for_each_token(server: str) -> None:
    requests: list[str] = []

    async def count(request: httpx2.Request) -> None:
        requests.append(request.method)

    async with httpx2.AsyncClient(event_hooks={"request": [count]}) as http, AsyncClient(server, http=http) as client:
        stream = client.stream(f"answers/{uuid4()}")
        await record(range(2000), stream)
        assert requests.count("POST") < 100
        assert await stream.read().all() == list(range(2000))


async def test_events_are_recorded_over_a_restart_of_the_server(tmp_path: Path) -> None:
    with serving(tmp_path, DS_STORAGE__MODE="file-fast", DS_STORAGE__DATA_DIR=str(tmp_path / "data")) as first:
        port = first.address[1]
        async with AsyncClient(f"http://127.0.0.1:{port}") as client:
            stream = client.stream("answers/1")
            passed = tee(range(10), stream)
            assert [await anext(passed) for _ in range(5)] == [0, 1, 2, 3, 4]
            first.stop().ended()
            rest = asyncio.create_task(consume(passed))
            with serving(
                tmp_path, "--port", str(port), DS_STORAGE__MODE="file-fast", DS_STORAGE__DATA_DIR=str(tmp_path / "data")
            ):
                await rest
                assert await stream.read().all() == list(range(10))
