"""One turn of our client: `python -m bench.client.driver SIDE CASE '{"url": …}'`. Prints what it took, as JSON."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from everbrook import AsyncClient, AsyncStream, Client, Stream

Result = dict[str, Any]
_TOGETHER = 1000


def message(number: int, size: int) -> Result:
    """Make the message with a number."""
    return {"id": number, "kind": "bench", "value": number / 2, "room": "x" * size}


def since(begin: float, done: int, **more: object) -> Result:
    return {"took": time.perf_counter() - begin, "done": done, **more}


class Clock:
    """When the first message came, and how late each was."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.begin = self.cpu = 0.0

    def came(self, item: Result) -> int:
        if not self.latencies:
            self.begin, self.cpu = time.perf_counter(), time.process_time()
        self.latencies.append(time.time() * 1000 - item["at"])
        return len(self.latencies)

    def result(self) -> Result:
        cpu = time.process_time() - self.cpu
        return since(self.begin, len(self.latencies), latencies=self.latencies, cpu=cpu)


# The async side


async def async_produce(stream: AsyncStream[Any], count: int, options: Result) -> Result:
    values = [message(number, options["bytes"]) for number in range(count)]
    begin = time.perf_counter()
    async with stream.producer() as producer:
        for value in values:
            await producer.append(value)
        await producer.flush()
    return since(begin, count)


async def async_append(stream: AsyncStream[Any], count: int, options: Result) -> Result:
    begin = time.perf_counter()
    for number in range(count):
        await stream.append(message(number, options["bytes"]))
    return since(begin, count)


async def async_together(stream: AsyncStream[Any], count: int, options: Result) -> Result:
    begin = time.perf_counter()
    for start in range(0, count, _TOGETHER):
        numbers = range(start, start + _TOGETHER)
        await asyncio.gather(*(stream.append(message(number, options["bytes"])) for number in numbers))
    return since(begin, count)


async def async_list(stream: AsyncStream[Any], _count: int, _options: Result) -> Result:
    begin = time.perf_counter()
    items = await stream.read().all()
    return since(begin, len(items), last=items[-1]["id"])


async def async_each(stream: AsyncStream[Any], _count: int, _options: Result) -> Result:
    begin = time.perf_counter()
    done, last = 0, -1
    async for item in stream.read():
        done += 1
        last = item["id"]
    return since(begin, done, last=last)


async def async_follow(stream: AsyncStream[Any], count: int, _options: Result) -> Result:
    clock = Clock()
    pages = aiter(stream.follow((await stream.head()).offset, mode="sse"))
    print("ready", flush=True)
    async for item in pages:
        if clock.came(item) == count:
            break
    return clock.result()


# The sync side


def sync_produce(stream: Stream[Any], count: int, options: Result) -> Result:
    values = [message(number, options["bytes"]) for number in range(count)]
    begin = time.perf_counter()
    with stream.producer() as producer:
        for value in values:
            producer.append(value)
        producer.flush()
    return since(begin, count)


def sync_append(stream: Stream[Any], count: int, options: Result) -> Result:
    begin = time.perf_counter()
    for number in range(count):
        stream.append(message(number, options["bytes"]))
    return since(begin, count)


def sync_together(stream: Stream[Any], count: int, options: Result) -> Result:
    """A thread that has many to append has `extend`."""
    begin = time.perf_counter()
    for start in range(0, count, _TOGETHER):
        stream.extend(message(number, options["bytes"]) for number in range(start, start + _TOGETHER))
    return since(begin, count)


def sync_list(stream: Stream[Any], _count: int, _options: Result) -> Result:
    begin = time.perf_counter()
    items = stream.read().all()
    return since(begin, len(items), last=items[-1]["id"])


def sync_each(stream: Stream[Any], _count: int, _options: Result) -> Result:
    begin = time.perf_counter()
    done, last = 0, -1
    for item in stream.read():
        done += 1
        last = item["id"]
    return since(begin, done, last=last)


def sync_follow(stream: Stream[Any], count: int, _options: Result) -> Result:
    clock = Clock()
    values = iter(stream.follow(stream.head().offset, mode="sse"))
    print("ready", flush=True)
    for item in values:
        if clock.came(item) == count:
            break
    return clock.result()


ASYNC: Mapping[str, Callable[[AsyncStream[Any], int, Result], Awaitable[Result]]] = {
    "produce": async_produce,
    "append": async_append,
    "together": async_together,
    "list": async_list,
    "each": async_each,
    "follow": async_follow,
}
SYNC: Mapping[str, Callable[[Stream[Any], int, Result], Result]] = {
    "produce": sync_produce,
    "append": sync_append,
    "together": sync_together,
    "list": sync_list,
    "each": sync_each,
    "follow": sync_follow,
}


async def run_async(case: str, options: Result) -> Result:
    """Take an async turn."""
    async with AsyncClient(options["url"].partition("/v1/")[0]) as client:
        stream = client.stream(options["url"], content_type="application/json")
        if case != "follow" and options["warm"]:
            await ASYNC[case](stream, options["warm"], options)
        before = time.process_time()
        result = await ASYNC[case](stream, options["messages"], options)
    return {"cpu": time.process_time() - before, **result}


def run_sync(case: str, options: Result) -> Result:
    """Take a sync turn."""
    with Client(options["url"].partition("/v1/")[0]) as client:
        stream = client.stream(options["url"], content_type="application/json")
        if case != "follow" and options["warm"]:
            SYNC[case](stream, options["warm"], options)
        before = time.process_time()
        result = SYNC[case](stream, options["messages"], options)
    return {"cpu": time.process_time() - before, **result}


def main(side: str, case: str, given: str) -> None:
    """Take a turn."""
    options: Result = json.loads(given)
    result = run_sync(case, options) if side == "sync" else asyncio.run(run_async(case, options))
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
