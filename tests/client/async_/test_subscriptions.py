"""Subscriptions through the client: made, described, changed and worked on, on both surfaces (§6, §7)."""

from itertools import count

import pytest

from everbrook.client._async.client import AsyncClient
from everbrook.client._async.concurrency import Condition, spawn
from everbrook.client._async.resources import AsyncSubscription
from everbrook.client.workers import AsyncWorker, Batch
from everbrook.protocol.errors import InvalidRequest, StreamNotFound, SubscriptionExists, SubscriptionNotFound

pytestmark = pytest.mark.anyio

HOOK = "https://example.com/hook"
PATIENCE_SECS = 60.0

_numbers = count()


async def pulled(client: AsyncClient, pattern: str = "jobs/**") -> tuple[str, AsyncSubscription]:
    """A folder of its own, and a pull-wake subscription to the streams in it."""
    folder = f"subscriptions-{next(_numbers)}"
    await client.stream(f"{folder}/wakes").create()
    subscription = client.subscription(folder)
    await subscription.create(pattern=f"{folder}/{pattern}", wake_stream=f"{folder}/wakes")
    return folder, subscription


class Notes:
    """A handler that notes what it is given."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self._changed = Condition()

    async def handle(self, batch: Batch) -> None:
        async with self._changed:
            self.batches.append(batch)
            self._changed.notify_all()

    async def until(self, number: int) -> bool:
        """Wait for so many messages."""
        async with self._changed:
            return await self._changed.wait_until(lambda: len(self.messages) >= number, PATIENCE_SECS)

    @property
    def messages(self) -> list[object]:
        return [message for batch in self.batches for message in batch.messages]


async def test_a_pull_wake_subscription_describes_itself(client: AsyncClient) -> None:
    folder, subscription = await pulled(client)
    found = await subscription.read()
    assert (found.type, found.wake_stream, found.pattern) == ("pull-wake", f"{folder}/wakes", f"{folder}/jobs/**")


async def test_a_webhook_subscription_describes_itself(client: AsyncClient) -> None:
    subscription = client.subscription(f"hook-{next(_numbers)}")
    found = await subscription.create(pattern="nothing/*", webhook=HOOK, lease_ttl_ms=5000, description="mail")
    assert (found.type, found.webhook and found.webhook["url"]) == ("webhook", HOOK)
    assert (found.lease_ttl_ms, found.description) == (5000, "mail")


async def test_creating_the_same_twice_is_creating_it_once(client: AsyncClient) -> None:
    subscription = client.subscription(f"twice-{next(_numbers)}")
    first = await subscription.create(pattern="nothing/*", webhook=HOOK)
    assert await subscription.create(pattern="nothing/*", webhook=HOOK) == first


async def test_creating_another_under_the_same_id_is_a_conflict(client: AsyncClient) -> None:
    subscription = client.subscription(f"conflict-{next(_numbers)}")
    await subscription.create(pattern="nothing/*", webhook=HOOK)
    with pytest.raises(SubscriptionExists):
        await subscription.create(pattern="something/*", webhook=HOOK)


async def test_a_subscription_goes_to_a_webhook_or_to_workers(client: AsyncClient) -> None:
    with pytest.raises(ValueError, match="either a webhook or a wake_stream"):
        await client.subscription("neither").create(pattern="a/*")


async def test_a_pattern_that_makes_no_sense_is_refused(client: AsyncClient) -> None:
    with pytest.raises(InvalidRequest):
        await client.subscription("bad").create(pattern="/a//b", webhook=HOOK)


async def test_a_subscription_that_is_not_there_is_named(client: AsyncClient) -> None:
    with pytest.raises(SubscriptionNotFound, match="subscriptions/missing"):
        await client.subscription("missing").read()


async def test_streams_are_added_and_taken_back(client: AsyncClient) -> None:
    folder, subscription = await pulled(client)
    await client.stream(f"{folder}/a b/ü").create()
    await client.stream(f"{folder}/other").create()
    await subscription.add(f"{folder}/a b/ü", f"{folder}/other")
    await subscription.remove(f"{folder}/other")
    assert [stream["path"] for stream in (await subscription.read()).streams] == [f"{folder}/a b/ü"]


async def test_nothing_but_a_stream_can_be_taken_back(client: AsyncClient) -> None:
    """A path that leads upwards would be the subscription itself."""
    _, subscription = await pulled(client)
    with pytest.raises(ValueError, match="segment"):
        await subscription.remove("..")
    assert (await subscription.read()).id == subscription.id


async def test_a_deleted_subscription_is_gone(client: AsyncClient) -> None:
    _, subscription = await pulled(client)
    await subscription.delete()
    with pytest.raises(SubscriptionNotFound):
        await subscription.read()


async def test_a_worker_gets_what_is_new_and_acks_it(client: AsyncClient) -> None:
    folder, subscription = await pulled(client)
    notes = Notes()
    worker: AsyncWorker = await subscription.worker(notes.handle, name="tests")
    working = spawn(worker.run, name="worker")
    stream = client.stream(f"{folder}/jobs/1")
    await stream.create(data={"n": 1})
    tail = await stream.append({"n": 2})
    assert await notes.until(2)
    worker.stop()
    await working.join()
    assert notes.messages == [{"n": 1}, {"n": 2}]
    assert [stream["acked_offset"] for stream in (await subscription.read()).streams] == [tail]


async def test_a_subscription_of_a_bucket_has_workers_too(client: AsyncClient) -> None:
    bucket = client.bucket(f"pool-{next(_numbers)}")
    await bucket.create()
    await bucket.stream("wakes").create()
    subscription = bucket.subscription("jobs")
    await subscription.create(streams=["news"], wake_stream="wakes")
    notes = Notes()
    worker: AsyncWorker = await subscription.worker(notes.handle)
    working = spawn(worker.run, name="worker")
    await bucket.stream("news").create(data="hello", content_type="application/json")
    assert await notes.until(1)
    worker.stop()
    await working.join()
    assert (notes.batches[0].stream, notes.messages) == ("news", ["hello"])


async def test_webhooks_have_no_workers(client: AsyncClient) -> None:
    subscription = client.subscription(f"hook-{next(_numbers)}")
    await subscription.create(pattern="nothing/*", webhook=HOOK)
    with pytest.raises(ValueError, match="only a pull-wake subscription has workers"):
        await subscription.worker(Notes().handle)


async def test_a_worker_whose_wake_stream_is_deleted_says_so(client: AsyncClient) -> None:
    folder, subscription = await pulled(client)
    worker: AsyncWorker = await subscription.worker(Notes().handle)
    await client.stream(f"{folder}/wakes").delete()
    with pytest.raises(StreamNotFound, match=f"{folder}/wakes"):
        await worker.run()


async def test_a_worker_shares_the_headers_and_the_token_of_its_client(server: str) -> None:
    asked: list[str] = []

    def token() -> str:
        asked.append("token")
        return "secret"

    def trace() -> str:
        asked.append("header")
        return "1"

    async with AsyncClient(server, token=token, headers={"X-Trace": trace}) as client:
        _, subscription = await pulled(client)
        worker: AsyncWorker = await subscription.worker(Notes().handle)
        before = asked.count("header")
        await subscription.delete()
        with pytest.raises(SubscriptionNotFound):
            await worker.run()
    assert asked.count("header") > before + 1
    assert "token" in asked
