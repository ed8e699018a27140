"""Tasks that are cancelled anywhere: nobody else is harmed, nothing hangs, and no connection stays open."""

import asyncio
import selectors
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest

from everbrook.client._async.client import AsyncClient
from everbrook.client._async.stream import AsyncStream
from everbrook.client.errors import ClientError
from everbrook.protocol.errors import PayloadTooLarge
from tests.kit.faults.kinds import Delayed, Reply
from tests.kit.faults.proxy import QUICKLY, Proxy
from tests.kit.server_process import serving

PATIENCE_SECS = 60.0

_numbers = count()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder: Path = tmp_path_factory.mktemp("server")
    with serving(folder, DS_SERVER__LONG_POLL_TIMEOUT_SECS="1", DS_LIMITS__MAX_APPEND_BYTES="1000000") as server:
        yield server.address[1]


@pytest.fixture
def proxy(port: int) -> Iterator[Proxy]:
    with Proxy(port) as between:
        yield between


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, PATIENCE_SECS))


async def fresh(client: AsyncClient, content_type: str = "application/json") -> AsyncStream[object]:
    stream: AsyncStream[object] = client.stream(f"cancelling-{next(_numbers)}")
    await stream.create(content_type=content_type)
    return stream


class CountingSelector(selectors.DefaultSelector):
    """Counts the turns of an event loop."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.turns += 1
        return super().select(timeout)


def test_an_append_that_is_cancelled_takes_no_other_with_it(proxy: Proxy) -> None:
    async def main() -> None:
        async with AsyncClient(proxy.origin) as client:
            stream = await fresh(client)
            proxy.arm(Delayed(0.3), method="POST")
            first = asyncio.create_task(stream.append("first"))
            await asyncio.sleep(0.1)
            second, third = (asyncio.create_task(stream.append(name)) for name in ("second", "third"))
            await asyncio.sleep(0.05)
            proxy.arm(Delayed(0.3), method="POST")
            await first
            second.cancel()
            await third
            assert "third" in await stream.read().all()

    run(main())


def test_an_append_that_is_cancelled_before_its_turn_is_not_sent(proxy: Proxy) -> None:
    async def main() -> None:
        async with AsyncClient(proxy.origin) as client:
            stream = await fresh(client)
            proxy.arm(Delayed(0.3), method="POST")
            first = asyncio.create_task(stream.append("first"))
            await asyncio.sleep(0.1)
            second = asyncio.create_task(stream.append("second"))
            await asyncio.sleep(0.05)
            second.cancel()
            await first
            await stream.append("third")
            assert await stream.read().all() == ["first", "third"]

    run(main())


@pytest.mark.parametrize("seed", range(5))
def test_whoever_is_not_cancelled_is_in_the_stream_once(proxy: Proxy, seed: int) -> None:
    async def main() -> None:
        random = Random(seed)
        async with AsyncClient(proxy.origin) as client:
            stream = await fresh(client)
            proxy.follow_plan(lambda _request: Delayed(random.random() / 100))
            tasks = [asyncio.create_task(stream.append(number)) for number in range(50)]
            for task in random.sample(tasks, 20):
                await asyncio.sleep(random.random() / 200)
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            found = await stream.read().all()
            assert len(found) == len({*found})
            assert {number for number, result in enumerate(done) if isinstance(result, str)} <= {*found}
            assert {type(result) for result in done} <= {str, asyncio.CancelledError}

    run(main())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("mode", ["sse", "long-poll"])
def test_a_follower_that_is_cancelled_anywhere_leaves_no_connection(proxy: Proxy, mode: Any, seed: int) -> None:  # noqa: ANN401
    async def main() -> None:
        random = Random(seed)
        one = httpx2.AsyncClient(limits=httpx2.Limits(max_connections=1))
        async with one, AsyncClient(proxy.origin, http=one, retry=QUICKLY, timeout_secs=2.0) as client:
            stream = await fresh(client)
            await stream.extend(range(10))
            for _ in range(10):
                task = asyncio.create_task(stream.follow(mode=mode).all())
                await asyncio.sleep(random.random() / 20)
                task.cancel()
                await asyncio.wait({task})
            assert await stream.read().all() == list(range(10))  # over the one connection

    run(main())


@pytest.mark.parametrize("seed", range(5))
def test_a_producer_whose_user_is_cancelled_still_keeps_the_order(proxy: Proxy, seed: int) -> None:
    async def main() -> None:
        random = Random(seed)
        async with AsyncClient(proxy.origin, retry=QUICKLY) as client:
            stream = await fresh(client)
            proxy.follow_plan(lambda _request: Delayed(random.random() / 100))

            async def produce() -> None:
                async with stream.producer(max_batch_items=3, linger_secs=0.001) as producer:
                    for number in range(10_000):
                        await producer.append(number)
                        await asyncio.sleep(0)

            task = asyncio.create_task(produce())
            await asyncio.sleep(random.random() / 5)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await asyncio.sleep(0.3)
            found = await stream.read().all()
            assert found == list(range(len(found)))

    run(main())


def test_a_flush_that_is_cancelled_can_be_made_again(proxy: Proxy) -> None:
    async def main() -> None:
        async with AsyncClient(proxy.origin) as client:
            stream = await fresh(client)
            async with stream.producer() as producer:
                await producer.append(1)
                proxy.arm(Delayed(0.3), method="POST")
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(producer.flush(), 0.05)
                assert await producer.flush() is not None
            assert await stream.read().all() == [1]

    run(main())


def test_a_batch_that_is_refused_ends_the_producer_and_all_its_requests(proxy: Proxy) -> None:
    """Those behind it can't arrive any more: they would be asked for again and again."""

    async def main() -> None:
        async with AsyncClient(proxy.origin, retry=QUICKLY) as client:
            stream = await fresh(client)
            producer = stream.producer(max_batch_items=1, linger_secs=0)
            await producer.append(0)
            await producer.flush()
            proxy.arm(Reply(413, {}, b"too large"), method="POST")
            for number in range(1, 20):
                await producer.append(number)
            with pytest.raises(PayloadTooLarge):
                await producer.flush()
            await asyncio.sleep(0.2)
            asked = len(proxy.requests)
            await asyncio.sleep(0.3)
            assert len(proxy.requests) == asked
            with pytest.raises(PayloadTooLarge):
                await producer.detach()
            assert [task for task in asyncio.all_tasks() if "producer" in task.get_name()] == []

    run(main())


def test_a_producer_that_waits_costs_no_time(proxy: Proxy) -> None:
    """While all its requests are under way, what lingers behind them is not looked at again and again."""

    async def main() -> None:
        async with AsyncClient(proxy.origin) as client:
            stream = await fresh(client)
            proxy.arm(Delayed(0.5), method="POST")
            producer = stream.producer(linger_secs=0.01)
            await producer.append(1)
            await asyncio.sleep(0.05)
            await producer.append(2)
            turns = selector.turns
            await asyncio.sleep(0.3)
            assert selector.turns - turns < 10
            await producer.detach()

    selector = CountingSelector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(asyncio.wait_for(main(), PATIENCE_SECS))


def test_a_client_that_is_closed_ends_what_goes_on_in_the_background(proxy: Proxy) -> None:
    async def main() -> None:
        client = AsyncClient(proxy.origin, retry=QUICKLY)
        stream = await fresh(client)
        following = asyncio.create_task(stream.follow().all())
        await asyncio.sleep(0.2)
        await client.close()
        with pytest.raises(ClientError, match="this client is closed"):
            await following

    run(main())
