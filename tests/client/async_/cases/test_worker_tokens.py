"""Workers that a client made: they ask with its token, and for a new one when the server takes the old one no more."""

import pytest

from everbrook.client._async.client import AsyncClient
from everbrook.client._async.concurrency import Condition, spawn
from everbrook.client.workers import AsyncWorker, Batch
from tests.client.pulling import PATIENCE_SECS
from tests.kit.faults.exchange import Request
from tests.kit.faults.kinds import Fault, Reply, Sound
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

pytestmark = pytest.mark.anyio


class Guard:
    """Lets requests through that have the token of the hour, or that of a lease."""

    def __init__(self) -> None:
        self.token = "morning"  # noqa: S105 - not a secret
        self.refused = 0

    def __call__(self, request: Request) -> Fault:
        leased = request.target.endswith(("/ack", "/release"))
        if leased or request.headers.get("authorization") == f"Bearer {self.token}":
            return Sound()
        self.refused += 1
        return Reply(401, {"WWW-Authenticate": "Bearer"}, b"this token is not valid")


class Handled:
    """Counts the batches that it is given."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = Condition()

    async def handle(self, _batch: Batch) -> None:
        async with self._changed:
            self.count += 1
            self._changed.notify_all()

    async def until(self, number: int) -> bool:
        async with self._changed:
            return await self._changed.wait_until(lambda: self.count >= number, PATIENCE_SECS)


async def test_a_worker_goes_on_with_a_new_token(client: AsyncClient, writer: Writer, proxy: Proxy) -> None:
    guard, handled = Guard(), Handled()
    proxy.follow_plan(guard)
    stream = client.stream(f"{writer.name}-jobs")
    await client.stream(f"{writer.name}-wakes").create()
    async with AsyncClient(proxy.origin, token=lambda: guard.token) as guarded:
        subscription = guarded.subscription(writer.name)
        await subscription.create(pattern=f"{writer.name}-jobs", wake_stream=f"{writer.name}-wakes")
        worker: AsyncWorker = await subscription.worker(handled.handle)
        working = spawn(worker.run, name="worker")
        await stream.create(data=1)
        assert await handled.until(1)
        guard.token = "noon"  # noqa: S105 - not a secret
        await stream.append(2)
        assert await handled.until(2)
        worker.stop()
        await working.join()
    assert guard.refused >= 1
