"""Whoever stops or is stopped halfway leaves nothing behind: readers that are closed, clients, cancelled writers."""

import threading
from contextlib import aclosing
from itertools import count
from pathlib import Path

import httpx2
import pytest

from everbrook.client import Mode
from everbrook.client._async.client import AsyncClient
from everbrook.client._async.concurrency import Condition, sleep, spawn
from everbrook.client._async.stream import AsyncStream
from everbrook.client.errors import ClientError
from everbrook.client.offsets import FileOffsets
from everbrook.client.retry import Retry

pytestmark = pytest.mark.anyio

PATIENCE_SECS = 60.0

_numbers = count()


async def fresh(client: AsyncClient) -> AsyncStream[object]:
    stream: AsyncStream[object] = client.stream(f"interrupted-{next(_numbers)}")
    await stream.create()
    return stream


class Following:
    """A loop over a reader, in the background."""

    def __init__(self, stream: AsyncStream[object], mode: Mode) -> None:
        self.reader = stream.follow(mode=mode)
        self.values: list[object] = []
        self._changed = Condition()
        self._task = spawn(self._run, name="following")

    async def _run(self) -> None:
        async for value in self.reader:
            async with self._changed:
                self.values.append(value)
                self._changed.notify_all()

    async def until(self, number: int) -> bool:
        async with self._changed:
            return await self._changed.wait_until(lambda: len(self.values) >= number, PATIENCE_SECS)

    async def end(self) -> None:
        await self.reader.close()
        await self._task.join()


@pytest.mark.parametrize("mode", ["sse", "long-poll"])
async def test_a_reader_that_is_closed_ends_the_loop_over_it(client: AsyncClient, mode: Mode) -> None:
    stream = await fresh(client)
    following = Following(stream, mode)
    await stream.append(1)
    assert await following.until(1)
    await following.end()
    assert following.values == [1]


async def test_closing_readers_at_any_moment_harms_no_other_request(client: AsyncClient) -> None:
    stream = await fresh(client)
    for number in range(30):
        following = Following(stream, "sse")
        await stream.append(number)
        await sleep(number % 5 / 1000)
        await following.end()
    assert await stream.read().all() == list(range(30))


async def test_line_ends_come_as_they_were_written(client: AsyncClient) -> None:
    """Events can't tell CRLF from LF: such a text is read again in another way."""
    stream: AsyncStream[object] = client.stream(f"interrupted-{next(_numbers)}")
    await stream.create(content_type="text/plain")
    following = Following(stream, "auto")
    for number, text in enumerate(("a\n", "b\r\n", "c\r\n"), 1):
        await stream.append(text)
        assert await following.until(number)
    await following.end()
    assert "".join(map(str, following.values)) == "a\nb\r\nc\r\n"


async def test_a_reader_may_be_closed_before_and_after_it_was_read(client: AsyncClient) -> None:
    stream = await fresh(client)
    reader = stream.follow()
    await reader.close()
    assert await reader.all() == []
    await reader.close()


async def test_a_closed_client_asks_nothing_more(server: str) -> None:
    client = AsyncClient(server)
    stream = await fresh(client)
    await client.close()
    with pytest.raises(ClientError, match="this client is closed"):
        await stream.head()
    await client.close()


async def test_a_client_of_the_users_own_stays_open(server: str) -> None:
    async with httpx2.AsyncClient() as http:
        async with AsyncClient(server, http=http) as client:
            stream = await fresh(client)
        assert (await http.get(stream.url)).status_code == 200


async def test_a_client_of_the_users_own_may_follow_redirects(server: str) -> None:
    async with httpx2.AsyncClient(follow_redirects=True) as http, AsyncClient(server, http=http) as client:
        stream = await fresh(client)
        await stream.publish(b"state", offset=await stream.append(1))
        found = await stream.snapshot()
    assert found is not None
    assert found.data == b"state"


async def test_leaving_a_follow_early_gives_its_connection_back(server: str) -> None:
    """The pool has one connection: if it is not given back, the next request times out."""
    one = httpx2.AsyncClient(limits=httpx2.Limits(max_connections=1))
    async with one, AsyncClient(server, http=one, retry=Retry(max_attempts=1), timeout_secs=2.0) as client:
        stream = await fresh(client)
        await stream.append(1)
        pages = stream.follow(mode="sse").pages()
        assert (await anext(pages)).values == [1]
        await stream.append(2)
        assert (await anext(pages)).values == [2]  # over the event stream
        await pages.aclose()
        assert await stream.read().all() == [1, 2]


async def fail_while_producing(stream: AsyncStream[object]) -> None:
    async with stream.producer(linger_secs=60) as producer:
        await producer.append(1)
        raise KeyError


async def test_a_producer_that_was_left_by_an_error_has_sent_what_it_took(client: AsyncClient) -> None:
    stream = await fresh(client)
    with pytest.raises(KeyError):
        await fail_while_producing(stream)
    assert await stream.read().all() == [1]


async def test_a_message_that_was_not_handled_comes_again(client: AsyncClient, tmp_path: Path) -> None:
    """A value counts as handled when the next one is asked for, whatever becomes of the loop."""
    stream = await fresh(client)
    await stream.extend([1, 2, 3])
    offsets = FileOffsets(tmp_path / "offset")
    async with aclosing(aiter(stream.follow(offsets=offsets))) as values:
        assert [await anext(values), await anext(values)] == [1, 2]
    async with aclosing(aiter(stream.follow(offsets=offsets))) as values:
        assert await anext(values) == 2


async def test_a_flush_returns_though_others_go_on(client: AsyncClient) -> None:
    stream = await fresh(client)
    stop = threading.Event()
    async with stream.producer(linger_secs=0) as producer:

        async def go_on() -> None:
            while not stop.is_set():
                await producer.append("other")
                await sleep(0)

        others = spawn(go_on, name="others")
        await producer.append("mine")
        await producer.flush()
        stop.set()
        await others.join()
    assert "mine" in await stream.read().all()


async def test_a_producer_that_was_detached_does_not_pretend_to_close(client: AsyncClient) -> None:
    stream = await fresh(client)
    producer = stream.producer()
    await producer.detach()
    with pytest.raises(ValueError, match="closed or detached"):
        await producer.close()
    assert not (await stream.head()).closed


async def test_many_who_append_at_once_each_get_an_offset_and_nothing_is_lost(client: AsyncClient) -> None:
    stream = await fresh(client)
    offsets: list[str] = []

    async def append(first: int) -> None:
        offsets.extend([await stream.append(number) for number in range(first, first + 50)])

    tasks = [spawn(append, first, name="append") for first in range(0, 400, 50)]
    for task in tasks:
        await task.join()
    found = await stream.read().all()
    assert sorted(found, key=str) == sorted(range(400), key=str)
    assert len(offsets) == 400
