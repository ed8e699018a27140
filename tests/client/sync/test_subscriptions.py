# Written by tools/mirror.py from tests/client/async_/test_subscriptions.py: change that file, not this one.
"""Subscriptions through the client: made, described, changed and worked on, on both surfaces (§6, §7)."""

from itertools import count

import pytest

from everbrook.client._sync.client import Client
from everbrook.client._sync.concurrency import Condition, spawn
from everbrook.client._sync.resources import Subscription
from everbrook.client.workers import Batch, Worker
from everbrook.protocol.errors import InvalidRequest, StreamNotFound, SubscriptionExists, SubscriptionNotFound

HOOK = "https://example.com/hook"
PATIENCE_SECS = 60.0

_numbers = count()


def pulled(client: Client, pattern: str = "jobs/**") -> tuple[str, Subscription]:
    """A folder of its own, and a pull-wake subscription to the streams in it."""
    folder = f"subscriptions-{next(_numbers)}"
    client.stream(f"{folder}/wakes").create()
    subscription = client.subscription(folder)
    subscription.create(pattern=f"{folder}/{pattern}", wake_stream=f"{folder}/wakes")
    return folder, subscription


class Notes:
    """A handler that notes what it is given."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self._changed = Condition()

    def handle(self, batch: Batch) -> None:
        with self._changed:
            self.batches.append(batch)
            self._changed.notify_all()

    def until(self, number: int) -> bool:
        """Wait for so many messages."""
        with self._changed:
            return self._changed.wait_until(lambda: len(self.messages) >= number, PATIENCE_SECS)

    @property
    def messages(self) -> list[object]:
        return [message for batch in self.batches for message in batch.messages]


def test_a_pull_wake_subscription_describes_itself(client: Client) -> None:
    folder, subscription = pulled(client)
    found = subscription.read()
    assert (found.type, found.wake_stream, found.pattern) == ("pull-wake", f"{folder}/wakes", f"{folder}/jobs/**")


def test_a_webhook_subscription_describes_itself(client: Client) -> None:
    subscription = client.subscription(f"hook-{next(_numbers)}")
    found = subscription.create(pattern="nothing/*", webhook=HOOK, lease_ttl_ms=5000, description="mail")
    assert (found.type, found.webhook and found.webhook["url"]) == ("webhook", HOOK)
    assert (found.lease_ttl_ms, found.description) == (5000, "mail")


def test_creating_the_same_twice_is_creating_it_once(client: Client) -> None:
    subscription = client.subscription(f"twice-{next(_numbers)}")
    first = subscription.create(pattern="nothing/*", webhook=HOOK)
    assert subscription.create(pattern="nothing/*", webhook=HOOK) == first


def test_creating_another_under_the_same_id_is_a_conflict(client: Client) -> None:
    subscription = client.subscription(f"conflict-{next(_numbers)}")
    subscription.create(pattern="nothing/*", webhook=HOOK)
    with pytest.raises(SubscriptionExists):
        subscription.create(pattern="something/*", webhook=HOOK)


def test_a_subscription_goes_to_a_webhook_or_to_workers(client: Client) -> None:
    with pytest.raises(ValueError, match="either a webhook or a wake_stream"):
        client.subscription("neither").create(pattern="a/*")


def test_a_pattern_that_makes_no_sense_is_refused(client: Client) -> None:
    with pytest.raises(InvalidRequest):
        client.subscription("bad").create(pattern="/a//b", webhook=HOOK)


def test_a_subscription_that_is_not_there_is_named(client: Client) -> None:
    with pytest.raises(SubscriptionNotFound, match="subscriptions/missing"):
        client.subscription("missing").read()


def test_streams_are_added_and_taken_back(client: Client) -> None:
    folder, subscription = pulled(client)
    client.stream(f"{folder}/a b/ü").create()
    client.stream(f"{folder}/other").create()
    subscription.add(f"{folder}/a b/ü", f"{folder}/other")
    subscription.remove(f"{folder}/other")
    assert [stream["path"] for stream in subscription.read().streams] == [f"{folder}/a b/ü"]


def test_nothing_but_a_stream_can_be_taken_back(client: Client) -> None:
    """A path that leads upwards would be the subscription itself."""
    _, subscription = pulled(client)
    with pytest.raises(ValueError, match="segment"):
        subscription.remove("..")
    assert subscription.read().id == subscription.id


def test_a_deleted_subscription_is_gone(client: Client) -> None:
    _, subscription = pulled(client)
    subscription.delete()
    with pytest.raises(SubscriptionNotFound):
        subscription.read()


def test_a_worker_gets_what_is_new_and_acks_it(client: Client) -> None:
    folder, subscription = pulled(client)
    notes = Notes()
    worker: Worker = subscription.worker(notes.handle, name="tests")
    working = spawn(worker.run, name="worker")
    stream = client.stream(f"{folder}/jobs/1")
    stream.create(data={"n": 1})
    tail = stream.append({"n": 2})
    assert notes.until(2)
    worker.stop()
    working.join()
    assert notes.messages == [{"n": 1}, {"n": 2}]
    assert [stream["acked_offset"] for stream in subscription.read().streams] == [tail]


def test_a_subscription_of_a_bucket_has_workers_too(client: Client) -> None:
    bucket = client.bucket(f"pool-{next(_numbers)}")
    bucket.create()
    bucket.stream("wakes").create()
    subscription = bucket.subscription("jobs")
    subscription.create(streams=["news"], wake_stream="wakes")
    notes = Notes()
    worker: Worker = subscription.worker(notes.handle)
    working = spawn(worker.run, name="worker")
    bucket.stream("news").create(data="hello", content_type="application/json")
    assert notes.until(1)
    worker.stop()
    working.join()
    assert (notes.batches[0].stream, notes.messages) == ("news", ["hello"])


def test_webhooks_have_no_workers(client: Client) -> None:
    subscription = client.subscription(f"hook-{next(_numbers)}")
    subscription.create(pattern="nothing/*", webhook=HOOK)
    with pytest.raises(ValueError, match="only a pull-wake subscription has workers"):
        subscription.worker(Notes().handle)


def test_a_worker_whose_wake_stream_is_deleted_says_so(client: Client) -> None:
    folder, subscription = pulled(client)
    worker: Worker = subscription.worker(Notes().handle)
    client.stream(f"{folder}/wakes").delete()
    with pytest.raises(StreamNotFound, match=f"{folder}/wakes"):
        worker.run()


def test_a_worker_shares_the_headers_and_the_token_of_its_client(server: str) -> None:
    asked: list[str] = []

    def token() -> str:
        asked.append("token")
        return "secret"

    def trace() -> str:
        asked.append("header")
        return "1"

    with Client(server, token=token, headers={"X-Trace": trace}) as client:
        _, subscription = pulled(client)
        worker: Worker = subscription.worker(Notes().handle)
        before = asked.count("header")
        subscription.delete()
        with pytest.raises(SubscriptionNotFound):
            worker.run()
    assert asked.count("header") > before + 1
    assert "token" in asked
