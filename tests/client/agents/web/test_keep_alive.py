"""While nothing comes, a response says now and then that it is there, and who leaves then leaves nothing behind."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from starlette.requests import Request

from everbrook import AsyncClient
from everbrook.client.responses import DurableResponse
from tests.client.agents.web.application import Model
from tests.client.agents.web.events import reading


class Restless(DurableResponse):
    keep_alive_secs = 0.02


@pytest.mark.anyio
async def test_a_waiting_reader_gets_comments_and_may_leave_between_them(streams: AsyncClient) -> None:
    stream = streams.stream(f"answers/{uuid4()}")
    await stream.create()
    sent: list[bytes] = []
    left = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:  # noqa: ANN401 - ASGI's own
        sent.append(message.get("body", b""))
        if sent.count(b": keep-alive\n\n") > 2:
            left.set()

    request = Request({"type": "http", "headers": [], "query_string": b""})
    before = asyncio.all_tasks()
    async with asyncio.timeout(5):
        await Restless.resume(stream, request)(request.scope, receive, send)
    assert asyncio.all_tasks() - before == set()


def test_many_readers_who_leave_at_any_moment_cost_nobody_the_answer(chat: str, model: Model) -> None:
    model.pause_secs = 0.02
    with reading("POST", chat) as (_, events):
        next(events)
    for _ in range(20):
        with reading("GET", chat) as (_, events):
            next(events)
    assert httpx2.get(chat).text.count("event: message") == 20


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def streams(server: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(server) as client:
        yield client
