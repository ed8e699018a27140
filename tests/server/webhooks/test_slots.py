"""Slots of deliveries: shared by the buckets, in turns."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from everbrook.server.webhooks.delivery import Slots
from tests.server.webhooks.receivers import run


class Crowd:
    """Deliveries that take a slot, and keep it until they are told to end."""

    def __init__(self, count: int) -> None:
        self.slots = Slots(count)
        self.tasks: list[asyncio.Task[None]] = []
        self.begun: list[str] = []
        self._held: list[tuple[str, asyncio.Event]] = []

    async def _hold(self, bucket: str) -> None:
        async with self.slots.of(bucket):
            end = asyncio.Event()
            self.begun.append(bucket)
            self._held.append((bucket, end))
            await end.wait()

    async def begin(self, bucket: str, count: int = 1) -> None:
        self.tasks += [asyncio.ensure_future(self._hold(bucket)) for _ in range(count)]
        await settle()

    def let_go(self, bucket: str) -> None:
        """Tell the oldest delivery of a bucket to end."""
        place = next(place for place, (holder, _) in enumerate(self._held) if holder == bucket)
        self._held.pop(place)[1].set()

    async def end(self, bucket: str) -> None:
        """Let the oldest delivery of a bucket end."""
        self.let_go(bucket)
        await settle()

    @property
    def held(self) -> Counter[str]:
        return Counter(bucket for bucket, _ in self._held)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def crowd(count: int, act: Callable[[Crowd], Awaitable[None]]) -> Crowd:
    """Give a crowd that something was done with."""

    async def main() -> Crowd:
        made = Crowd(count)
        await act(made)
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)
        async with made.slots.of("after"):
            return made

    return run(main())


def test_one_bucket_has_half_of_the_slots_that_are_not_kept_for_others() -> None:
    async def act(made: Crowd) -> None:
        await made.begin("a", 50)
        assert made.held == {"a": 4}

    crowd(10, act)


def test_the_only_slot_can_be_taken() -> None:
    async def act(made: Crowd) -> None:
        await made.begin("a", 2)
        assert made.held == {"a": 1}

    crowd(1, act)


def test_a_newcomer_finds_a_slot_beside_a_crowd() -> None:
    async def act(made: Crowd) -> None:
        for bucket in "abcde":
            await made.begin(bucket, 100)
        await made.begin("new")
        assert made.held["new"] == 1

    crowd(100, act)


def test_buckets_that_wait_take_turns() -> None:
    async def act(made: Crowd) -> None:
        await made.begin("a", 5)
        await made.begin("b", 5)
        await made.begin("c", 5)
        for _ in range(6):
            await made.end(made.begun[-1])
        assert made.begun == ["a", "b", "c", "a", "b", "c", "a"]

    crowd(1, act)


def test_everybody_is_served_in_the_end() -> None:
    async def act(made: Crowd) -> None:
        for bucket in "abc":
            await made.begin(bucket, 10)
        while made.held:
            await made.end(next(iter(made.held)))
        assert Counter(made.begun) == {"a": 10, "b": 10, "c": 10}

    crowd(4, act)


def test_one_that_is_cancelled_while_it_waits_takes_no_slot() -> None:
    async def act(made: Crowd) -> None:
        await made.begin("a", 3)
        for task in made.tasks[1:]:
            task.cancel()
        await settle()
        await made.end("a")
        assert not made.held
        await made.begin("b")
        assert made.held == {"b": 1}

    crowd(2, act)


def test_one_that_is_cancelled_as_it_is_given_a_slot_gives_it_back() -> None:
    async def act(made: Crowd) -> None:
        await made.begin("a", 2)
        made.let_go("a")
        await asyncio.sleep(0)
        made.tasks[1].cancel()
        await settle()
        await made.begin("b")
        assert made.held["b"] == 1

    crowd(1, act)


def test_a_few_buckets_that_keep_all_they_can_get_leave_some_to_others() -> None:
    async def act(made: Crowd) -> None:
        for bucket in range(20):
            await made.begin(f"hostile-{bucket}", 100)
        await made.begin("new")
        assert made.held["new"] == 1

    crowd(100, act)
