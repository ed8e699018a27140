"""A materialised state that begins with a snapshot, and one whose values have types."""

from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx2
import msgspec
import pydantic
import pytest

from everbrook import InvalidChange, Reset, Set
from everbrook.client import session_events, state_events
from everbrook.client._async.client import AsyncClient
from everbrook.client._async.concurrency import sleep
from everbrook.client._async.materialise import AsyncMaterialiser
from everbrook.client._async.stream import AsyncStream
from everbrook.protocol.errors import IncarnationMismatch

pytestmark = pytest.mark.anyio

ADA, BOB = {"name": "Ada"}, {"name": "Bob"}
PATIENCE_SECS = 60.0

_numbers = count()


@pytest.fixture
async def stream(client: AsyncClient) -> AsyncStream[Any]:
    created = client.stream(f"snapshot-of-state-{next(_numbers)}")
    await created.create()
    return created


async def enter(state: AsyncMaterialiser) -> None:
    async with state:
        pass


async def test_it_begins_with_the_snapshot_where_history_was_cut(stream: AsyncStream[Any]) -> None:
    await stream.extend([state_events.insert("user", "1", ADA), state_events.insert("user", "2", BOB)])
    async with stream.materialise() as state:
        await state.publish()
    await stream.append(state_events.delete("user", "1"))
    assert [value async for value in stream.read(state.offset)] == [state_events.delete("user", "1")]
    async with stream.materialise() as again:
        assert again == {"user": {"2": BOB}}


async def test_a_state_is_no_snapshot_of_a_later_stream_of_the_same_name(stream: AsyncStream[Any]) -> None:
    await stream.append(state_events.insert("user", "1", ADA))
    async with stream.materialise() as state:
        await state.close()
        await stream.delete()
        await stream.create()
        await stream.append(state_events.insert("user", "2", ADA))
        with pytest.raises(IncarnationMismatch):
            await state.publish()
    assert await stream.read().all() == [state_events.insert("user", "2", ADA)]


async def test_a_snapshot_may_be_written_by_others_in_either_dialect(stream: AsyncStream[Any]) -> None:
    offset = await stream.append(state_events.insert("user", "1", ADA))
    snapshot = b'[{"key": "m", "type": "chunk", "operation": "append", "value": "Hel"}]'
    await stream.publish(snapshot, offset=offset)
    await stream.append(session_events.append("chunk", "m", "lo"))
    async with stream.materialise() as state:
        assert state == {"chunk": {"m": "Hello"}}


async def test_a_snapshot_that_is_no_state_ends_it(stream: AsyncStream[Any]) -> None:
    offset = await stream.append(state_events.insert("user", "1", ADA))
    await stream.publish(b"{}", offset=offset)
    with pytest.raises(InvalidChange, match="a snapshot of a state must be a JSON array"):
        await enter(stream.materialise())


class Struct(msgspec.Struct):
    name: str


@dataclass
class Data:
    name: str


class Model(pydantic.BaseModel):
    name: str


@pytest.mark.parametrize("user", [Struct(name="Ada"), Data(name="Ada"), Model(name="Ada")])
async def test_values_are_decoded_into_the_type_that_is_given(stream: AsyncStream[Any], user: object) -> None:
    await stream.extend([state_events.insert("user", "1", user), state_events.insert("tag", "1", ADA)])
    async with stream.materialise(types={"user": type(user)}) as state:
        assert state == {"user": {"1": user}, "tag": {"1": ADA}}


async def test_a_value_that_does_not_fit_its_type_is_no_change(stream: AsyncStream[Any]) -> None:
    await stream.append(state_events.insert("user", "1", {"name": 7}))
    with pytest.raises(InvalidChange, match=r"{'name': 7} is no value of type user: .*at `\$\.name`"):
        await enter(stream.materialise(types={"user": Struct}))


async def test_a_snapshot_keeps_what_a_type_does_not_know(stream: AsyncStream[Any]) -> None:
    await stream.append(state_events.insert("user", "1", {"name": "Ada", "age": 36}))
    async with stream.materialise(types={"user": Struct}) as state:
        await state.publish()
    async with stream.materialise() as again:
        assert again == {"user": {"1": {"name": "Ada", "age": 36}}}


class Gate(httpx2.AsyncHTTPTransport):
    """A way to the server that can be shut. Tells how many live reads it has let through."""

    shut = False
    live_reads = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.shut:
            raise httpx2.ConnectError("the gate is shut")
        self.live_reads += "live=" in str(request.url)
        return await super().handle_async_request(request)


async def test_a_state_that_fell_behind_a_cut_begins_anew(server: str, stream: AsyncStream[Any]) -> None:
    await stream.append(state_events.insert("user", "0", ADA))
    gate = Gate()
    async with (
        httpx2.AsyncClient(transport=gate) as http,
        AsyncClient(server, http=http).stream(stream.name).materialise(mode="long-poll") as state,
    ):
        changes = state.changes()
        while not gate.live_reads:
            await sleep(0.01)
        gate.shut = True
        await stream.append(state_events.insert("user", "1", ADA))
        await state.wait_for(lambda now: "1" in now["user"], PATIENCE_SECS)
        offset = await stream.append(state_events.insert("user", "2", ADA))
        await stream.publish(b'[{"key": "3", "type": "user", "operation": "set", "value": 3}]', offset=offset)
        gate.shut = False
        await state.wait_for(lambda now: "3" in now["user"], PATIENCE_SECS)
        assert state == {"user": {"3": 3}}
        assert state.offset == offset
        seen = [await anext(changes), await anext(changes), await anext(changes)]
        assert seen == [Set("user", "1", ADA, "insert"), Reset(), Set("user", "3", 3)]
