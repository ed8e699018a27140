"""A materialised state: the current value per type and key, of a stream on a real server."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from everbrook import Append, InvalidChange, Remove, Set
from everbrook.client import Mode, session_events, state_events
from everbrook.client._async.client import AsyncClient
from everbrook.client._async.concurrency import spawn
from everbrook.client._async.materialise import AsyncMaterialiser
from everbrook.client._async.stream import AsyncStream
from everbrook.client.errors import ChangesMissed, StateEnded
from everbrook.client.timeouts import ClientTuning
from everbrook.protocol import StateMessage
from everbrook.protocol.errors import StreamNotFound
from tests.kit.faults.proxy import Proxy

pytestmark = pytest.mark.anyio

ADA, BOB = {"name": "Ada"}, {"name": "Bob"}
PATIENCE_SECS = 60.0

_numbers = count()


@pytest.fixture
async def stream(client: AsyncClient) -> AsyncStream[Any]:
    created = client.stream(f"state-{next(_numbers)}")
    await created.create()
    return created


@pytest.fixture
def proxy(server: str) -> Iterator[Proxy]:
    with Proxy(int(server.rpartition(":")[2])) as running:
        yield running


async def enter(state: AsyncMaterialiser) -> None:
    async with state:
        pass


async def test_it_is_current_once_it_is_entered(stream: AsyncStream[Any]) -> None:
    await stream.extend([state_events.insert("user", "1", ADA), state_events.update("user", "1", BOB)])
    offset = await stream.append(session_events.set("presence", "1", "online"))
    async with stream.materialise() as state:
        assert state == {"user": {"1": BOB}, "presence": {"1": "online"}}
        assert (state.offset, state.closed) == (offset, False)


async def test_it_is_current_after_all_the_pages_of_a_long_stream(stream: AsyncStream[Any]) -> None:
    await stream.extend([state_events.insert("text", str(number), "x" * 100_000) for number in range(60)])
    async with stream.materialise() as state:
        assert len(state["text"]) == 60


async def test_it_is_kept_current(stream: AsyncStream[Any]) -> None:
    async with stream.materialise() as state:
        users = state["user"]
        assert (len(state), "user" in state, users.get("1")) == (0, False, None)
        await stream.append(state_events.insert("user", "1", ADA))
        assert await state.wait_for(lambda now: now["user"].get("1"), PATIENCE_SECS) == ADA
        await stream.append(state_events.delete("user", "1"))
        await state.wait_for(lambda _: not users, PATIENCE_SECS)
        assert list(state) == []


@pytest.mark.parametrize("mode", ["sse", "long-poll"])
async def test_it_follows_in_either_mode(stream: AsyncStream[Any], mode: Mode) -> None:
    async with stream.materialise(mode=mode) as state:
        for text in ("Hel", "lo"):
            await stream.append(session_events.append("chunk", "msg:1", text))
        await state.wait_for(lambda now: now["chunk"].get("msg:1") == "Hello", PATIENCE_SECS)


async def test_broken_connections_go_unnoticed(proxy: Proxy, stream: AsyncStream[Any]) -> None:
    """A list that grows shows what is lost and what is repeated."""
    async with AsyncClient(proxy.origin) as client, client.stream(stream.name).materialise() as state:
        for number in range(1, 7):
            offset = await stream.append(session_events.append("log", "1", number))
            await state.wait_for_offset(offset, PATIENCE_SECS)
            proxy.cut_all()
        assert state["log"]["1"] == [1, 2, 3, 4, 5, 6]


async def test_a_transaction_is_waited_for(stream: AsyncStream[Any]) -> None:
    async with stream.materialise() as state:
        both = [state_events.insert("user", key, ADA, txid="t-1") for key in "12"]
        await stream.extend(both)
        await state.wait_for_txid("t-1", PATIENCE_SECS)
        assert state["user"] == {"1": ADA, "2": ADA}


async def test_one_sees_what_one_has_written(stream: AsyncStream[Any]) -> None:
    async with stream.materialise() as state:
        for number in range(20):
            await state.wait_for_offset(await stream.append(session_events.set("n", "1", number)), PATIENCE_SECS)
            assert state["n"]["1"] == number


async def test_waiting_ends_when_it_is_late(stream: AsyncStream[Any]) -> None:
    async with stream.materialise() as state:
        with pytest.raises(TimeoutError, match=r"did not come within 0\.01 s"):
            await state.wait_for_txid("never", 0.01)


async def test_changes_come_one_by_one_until_the_stream_is_closed(stream: AsyncStream[Any]) -> None:
    await stream.append(state_events.insert("user", "0", ADA))
    async with stream.materialise() as state:
        changes = state.changes()
        await stream.append(state_events.insert("user", "1", ADA, txid="t"))
        await stream.append(session_events.append("chunk", "m", "Hi"))
        await stream.close(state_events.delete("user", "0"))
        assert [change async for change in changes] == [
            Set("user", "1", ADA, "insert", txid="t"),
            Append("chunk", "m", "Hi"),
            Remove("user", "0"),
        ]
        assert state == {"user": {"1": ADA}, "chunk": {"m": "Hi"}}
        assert state.closed


async def test_what_a_closed_stream_does_not_have_is_not_waited_for(stream: AsyncStream[Any]) -> None:
    await stream.close(state_events.insert("user", "1", ADA))
    async with stream.materialise() as state:
        assert await state.wait_for(lambda now: now["user"].get("1")) == ADA
        with pytest.raises(StateEnded, match="can't arrive any more"):
            await state.wait_for(lambda now: now["user"].get("2"))


async def test_whoever_waits_is_told_when_the_state_is_closed(stream: AsyncStream[Any]) -> None:
    state = stream.materialise()
    async with state:
        waiting = spawn(state.wait_for, lambda now: now["user"].get("1"), name="waiting")
        changes = state.changes()
    with pytest.raises(StateEnded):
        await waiting.join()
    assert [change async for change in changes] == []


async def test_a_state_is_entered_once_and_what_it_held_stays(stream: AsyncStream[Any]) -> None:
    await stream.append(state_events.insert("user", "1", ADA))
    async with stream.materialise() as state:
        pass
    with pytest.raises(RuntimeError, match="entered only once"):
        await state.__aenter__()
    assert state == {"user": {"1": ADA}}


async def test_a_reset_empties_it(stream: AsyncStream[Any]) -> None:
    await stream.extend([state_events.insert("user", "1", ADA), state_events.reset()])
    await stream.append(state_events.insert("user", "2", BOB))
    async with stream.materialise() as state:
        assert state == {"user": {"2": BOB}}


async def test_a_snapshot_of_it_stays_as_it_is(stream: AsyncStream[Any]) -> None:
    await stream.append(state_events.insert("user", "1", ADA))
    async with stream.materialise() as state:
        before = state.snapshot()
        await stream.append(state_events.reset())
        await state.wait_for(lambda now: not now, PATIENCE_SECS)
        assert before == {"user": {"1": ADA}}


async def test_nobody_sees_half_of_what_came_together(stream: AsyncStream[Any]) -> None:
    async with stream.materialise() as state:
        for number in range(50):
            await stream.extend([session_events.set("n", key, number) for key in "ab"])
            seen = state.snapshot().get("n", {})
            assert seen.get("a") == seen.get("b")


async def test_it_says_what_it_is(stream: AsyncStream[Any]) -> None:
    offset = await stream.extend([session_events.set("n", key, 1) for key in "ab"])
    async with stream.materialise() as state:
        assert repr(state) == f"<AsyncMaterialiser {stream.url} at {offset} (n: 2)>"


async def test_a_stream_that_is_deleted_has_no_state_any_more(stream: AsyncStream[Any]) -> None:
    await stream.append(state_events.insert("user", "1", ADA))
    async with stream.materialise() as state:
        await stream.delete()
        with pytest.raises(StreamNotFound):
            await state.wait_for_txid("t", PATIENCE_SECS)
        with pytest.raises(StreamNotFound):
            state["user"]


async def test_a_stream_that_is_not_there_has_no_state(client: AsyncClient) -> None:
    with pytest.raises(StreamNotFound):
        await enter(client.stream("state-missing").materialise())


async def test_a_stream_of_text_has_no_state(client: AsyncClient) -> None:
    stream = client.stream("state-text")
    await stream.create(content_type="text/plain")
    with pytest.raises(ValueError, match=r"a state needs a stream of application/json, but .* has text/plain"):
        await enter(stream.materialise())


async def test_a_message_that_is_no_change_ends_it_and_says_where(stream: AsyncStream[Any]) -> None:
    at = await stream.append(state_events.insert("user", "1", ADA))
    await stream.append({"hello": "world"})
    with pytest.raises(InvalidChange, match="must have headers or an operation") as refusal:
        await enter(stream.materialise())
    assert refusal.value.__notes__ == [f"the message at {at} of {stream.url}"]


async def test_whoever_looks_is_told_that_it_is_not_current(stream: AsyncStream[Any]) -> None:
    async with stream.materialise() as state:
        changes = state.changes()
        await stream.append(session_events.set("user", "1", ADA))
        await stream.append({"hello": "world"})
        with pytest.raises(InvalidChange):
            await state.wait_for_txid("t", PATIENCE_SECS)
        with pytest.raises(InvalidChange):
            state["user"]
        assert await anext(changes) == Set("user", "1", ADA)
        with pytest.raises(InvalidChange):
            await anext(changes)


async def test_what_is_no_change_is_handed_over_and_passed_by(stream: AsyncStream[Any]) -> None:
    await stream.extend([7, session_events.set("n", "1", 1), session_events.append("n", "1", 1)])
    refused: list[InvalidChange] = []
    async with stream.materialise(on_invalid=refused.append) as state:
        assert state == {"n": {"1": 1}}
    assert [str(error) for error in refused] == [
        "a change must be a JSON object, got 7",
        "n '1' is 1, to which 1 cannot be appended",
    ]


@pytest.mark.parametrize("number", [b"1e999", b"1" * 5000])
async def test_a_message_that_can_t_be_read_is_no_change_and_takes_no_other_with_it(
    stream: AsyncStream[Any], number: bytes
) -> None:
    await stream.append(session_events.set("n", "1", 1))
    at = await stream.append(session_events.set("n", "2", 2))
    await stream.append(b'{"type": "n", "key": "1", "operation": "set", "value": %b}' % number)
    await stream.append(session_events.set("n", "3", 3))
    refused: list[InvalidChange] = []
    async with stream.materialise(on_invalid=refused.append) as state:
        assert (state.snapshot(), len(refused)) == ({"n": {"1": 1, "2": 2, "3": 3}}, 1)
    with pytest.raises(InvalidChange, match="must be JSON that can be read, got b'") as refusal:
        await enter(stream.materialise())
    assert refusal.value.__notes__ == [f"the message at {at} of {stream.url}"]


@pytest.mark.parametrize("beside", [b"1", b"1e999"])
async def test_a_lone_surrogate_in_a_value_is_the_replacement_character(
    stream: AsyncStream[Any], beside: bytes
) -> None:
    """Gap G-03: it takes no message with it, not even where another one can't be read."""
    await stream.append(rb'{"type": "n", "key": "1", "operation": "set", "value": "\ud83d"}')
    await stream.append(b'{"type": "n", "key": "2", "operation": "set", "value": %b}' % beside)
    refused: list[InvalidChange] = []
    async with stream.materialise(on_invalid=refused.append) as state:
        assert (state["n"]["1"], len(refused)) == ("\ufffd", int(beside != b"1"))


async def test_changes_that_nobody_takes_are_not_kept_for_ever(stream: AsyncStream[Any]) -> None:
    async with AsyncMaterialiser(stream, tuning=ClientTuning(max_waiting_changes=2)) as state:
        changes = state.changes()
        await stream.extend([state_events.insert("n", key, 1) for key in "abc"])
        await state.wait_for(lambda now: len(now["n"]) == 3, PATIENCE_SECS)
        taken: list[StateMessage] = [await anext(changes), await anext(changes)]
        with pytest.raises(ChangesMissed, match="more than 2 changes were waiting"):
            await anext(changes)
    assert taken == [Set("n", "a", 1, "insert"), Set("n", "b", 1, "insert")]
