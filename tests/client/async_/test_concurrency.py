"""Waiting and running in the background: what the rest of the client relies on, on both sides."""

import time
from collections.abc import AsyncIterator
from contextvars import ContextVar

import pytest

from everbrook.client._async.concurrency import Condition, Lock, iterate, resolve, sleep, spawn

pytestmark = pytest.mark.anyio

asked_by = ContextVar("asked_by", default="nobody")


async def count_to_two() -> AsyncIterator[int]:
    yield 1
    yield 2


async def fail() -> None:
    raise LookupError("nothing there")


async def test_sleep_takes_its_time() -> None:
    started = time.monotonic()
    await sleep(0.02)
    assert time.monotonic() - started >= 0.015


async def test_a_lock_has_one_holder_at_a_time() -> None:
    lock = Lock()
    order: list[str] = []

    async def enter() -> None:
        async with lock:
            order.append("second")

    async with lock:
        waiting = spawn(enter, name="second")
        await sleep(0.02)
        order.append("first")
    await waiting.join()
    assert order == ["first", "second"]


async def test_who_waits_goes_on_once_the_predicate_holds() -> None:
    condition = Condition()
    arrived: list[int] = []

    async def arrive(number: int) -> None:
        async with condition:
            arrived.append(number)
            condition.notify_all()

    async with condition:
        tasks = [spawn(arrive, number, name=f"arrival {number}") for number in (1, 2)]
        assert await condition.wait_until(lambda: len(arrived) == 2, timeout_secs=60)
    for task in tasks:
        await task.join()


async def test_waiting_ends_when_the_time_is_over() -> None:
    condition = Condition()
    async with condition:
        assert not await condition.wait_until(lambda: False, timeout_secs=0.02)
    async with condition:
        assert await condition.wait_until(lambda: True, timeout_secs=0)


async def test_the_lock_is_held_again_after_a_timeout() -> None:
    condition = Condition()
    entered: list[str] = []

    async def enter() -> None:
        async with condition:
            entered.append("other")

    async with condition:
        await condition.wait_until(lambda: False, timeout_secs=0)
        other = spawn(enter, name="other")
        await sleep(0.02)
        assert entered == []
    await other.join()


async def test_joining_raises_what_the_task_raised() -> None:
    task = spawn(fail, name="failing")
    with pytest.raises(LookupError, match="nothing there"):
        await task.join()


async def test_a_task_has_the_context_of_whoever_spawned_it() -> None:
    seen: list[str] = []

    async def look() -> None:
        seen.append(asked_by.get())

    token = asked_by.set("the test")
    await spawn(look, name="looking").join()
    asked_by.reset(token)
    assert seen == ["the test"]


async def test_a_cancelled_task_ends_quietly() -> None:  # async only
    task = spawn(sleep, 60.0, name="sleeping")
    task.cancel()
    await task.join()
    assert task.done


async def test_whoever_joins_can_be_cancelled_alone() -> None:  # async only
    task = spawn(sleep, 0.05, name="sleeping")
    joining = spawn(task.join, name="joining")
    await sleep(0)
    joining.cancel()
    await joining.join()
    assert not task.done
    await task.join()


async def test_a_value_resolves_to_itself_and_a_callable_to_what_it_gives() -> None:
    assert await resolve("a") == "a"
    assert await resolve(lambda: "b") == "b"


async def test_a_coroutine_function_resolves_to_what_it_gives() -> None:
    async def give() -> str:
        return "c"

    assert await resolve(give) == "c"


async def test_values_come_one_by_one_whichever_way_they_are_given() -> None:
    assert [value async for value in iterate([1, 2])] == [1, 2]
    assert [value async for value in iterate(count_to_two())] == [1, 2]
