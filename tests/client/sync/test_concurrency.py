# Written by tools/mirror.py from tests/client/async_/test_concurrency.py: change that file, not this one.
"""Waiting and running in the background: what the rest of the client relies on, on both sides."""

import time
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from everbrook.client._sync.concurrency import Condition, Lock, iterate, resolve, sleep, spawn

asked_by = ContextVar("asked_by", default="nobody")


def count_to_two() -> Iterator[int]:
    yield 1
    yield 2


def fail() -> None:
    raise LookupError("nothing there")


def test_sleep_takes_its_time() -> None:
    started = time.monotonic()
    sleep(0.02)
    assert time.monotonic() - started >= 0.015


def test_a_lock_has_one_holder_at_a_time() -> None:
    lock = Lock()
    order: list[str] = []

    def enter() -> None:
        with lock:
            order.append("second")

    with lock:
        waiting = spawn(enter, name="second")
        sleep(0.02)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


def test_who_waits_goes_on_once_the_predicate_holds() -> None:
    condition = Condition()
    arrived: list[int] = []

    def arrive(number: int) -> None:
        with condition:
            arrived.append(number)
            condition.notify_all()

    with condition:
        tasks = [spawn(arrive, number, name=f"arrival {number}") for number in (1, 2)]
        assert condition.wait_until(lambda: len(arrived) == 2, timeout_secs=60)
    for task in tasks:
        task.join()


def test_waiting_ends_when_the_time_is_over() -> None:
    condition = Condition()
    with condition:
        assert not condition.wait_until(lambda: False, timeout_secs=0.02)
    with condition:
        assert condition.wait_until(lambda: True, timeout_secs=0)


def test_the_lock_is_held_again_after_a_timeout() -> None:
    condition = Condition()
    entered: list[str] = []

    def enter() -> None:
        with condition:
            entered.append("other")

    with condition:
        condition.wait_until(lambda: False, timeout_secs=0)
        other = spawn(enter, name="other")
        sleep(0.02)
        assert entered == []
    other.join()


def test_joining_raises_what_the_task_raised() -> None:
    task = spawn(fail, name="failing")
    with pytest.raises(LookupError, match="nothing there"):
        task.join()


def test_a_task_has_the_context_of_whoever_spawned_it() -> None:
    seen: list[str] = []

    def look() -> None:
        seen.append(asked_by.get())

    token = asked_by.set("the test")
    spawn(look, name="looking").join()
    asked_by.reset(token)
    assert seen == ["the test"]


def test_a_value_resolves_to_itself_and_a_callable_to_what_it_gives() -> None:
    assert resolve("a") == "a"
    assert resolve(lambda: "b") == "b"


def test_a_coroutine_function_resolves_to_what_it_gives() -> None:
    def give() -> str:
        return "c"

    assert resolve(give) == "c"


def test_values_come_one_by_one_whichever_way_they_are_given() -> None:
    assert list(iterate([1, 2])) == [1, 2]
    assert list(iterate(count_to_two())) == [1, 2]
