"""Who takes part in the subscription soak: streams, subscriptions of every kind on them, producers and workers."""

import json
from collections.abc import Mapping
from contextlib import closing
from random import Random
from typing import Any

from soak.client import Client
from soak.kill import fork
from soak.ledger import PromiseBroken
from soak.subscriptions.claimer import Claimer
from soak.subscriptions.ledger import Cursors, Tally
from soak.subscriptions.moments import Moments
from soak.subscriptions.receiver import Receiver
from soak.subscriptions.streams import Producer
from soak.subscriptions.work import LEASE_TTL_MS, Subscriber, Workplace

ROOT, BUCKET = "/v1/stream", "/ds/soak"
STREAMS = 25
Ends = dict[tuple[str, str], list[int]]
"""Where the messages of each stream end, by its root and path."""

_WAKE_STREAMS = ((ROOT, "wake/jobs"), (ROOT, "wake/late"), (BUCKET, "wakes"))


class Scene:
    """Everything around the server."""

    def __init__(self, port: int, random: Random) -> None:
        self.place = Workplace(port, Moments(), fork(random))
        self.tally = Tally()
        self._receiver = Receiver(self.place)
        self.subscribers = self._make_subscribers()
        self._receiver.subscribers = {each.id: each for each in self.subscribers if not each.pull}
        self.producers = self._make_producers(random)
        self.claimers = [
            Claimer(self.place, f"worker-{number}", f"{root}/{path}", self._told_in(root, path))
            for root, path in _WAKE_STREAMS
            for number in range(2)
        ]

    def _make_subscribers(self) -> list[Subscriber]:
        return [
            self._hook("hook-glob", ROOT, ("hooks/a/",), pattern="hooks/a/*"),
            self._hook("hook-deep", ROOT, ("hooks/",), pattern="hooks/**"),
            self._hook("hook-explicit", ROOT, ("orders/0", "orders/1", "late/"), streams=["orders/0", "orders/1"]),
            self._hook("hook-bucket", BUCKET, ("b-",), pattern="*"),
            self._pulled("pull-glob", ROOT, ("jobs/",), "wake/jobs", pattern="jobs/*"),
            self._pulled(
                "pull-mixed", ROOT, ("jobs/", "orders/1"), "wake/jobs", pattern="jobs/**", streams=["orders/1"]
            ),
            self._pulled("pull-explicit", ROOT, ("orders/", "late/"), "wake/late", streams=["orders/0", "orders/1"]),
            self._pulled("pull-bucket", BUCKET, ("b-",), "wakes", pattern="*"),
        ]

    def _hook(self, name: str, root: str, covered: tuple[str, ...], **links: object) -> Subscriber:
        delivery = {"type": "webhook", "webhook": {"url": f"{self._receiver.url}/{name}"}}
        return self._subscriber(name, root, covered, {**delivery, **links})

    def _pulled(self, name: str, root: str, covered: tuple[str, ...], wake: str, **links: object) -> Subscriber:
        return self._subscriber(name, root, covered, {"type": "pull-wake", "wake_stream": wake, **links})

    def _subscriber(self, name: str, root: str, covered: tuple[str, ...], config: Mapping[str, Any]) -> Subscriber:
        return Subscriber(name, root, {**config, "lease_ttl_ms": LEASE_TTL_MS}, covered, Cursors(name, self.tally))

    def _make_producers(self, random: Random) -> dict[str, Producer]:
        moments = self.place.moments

        def produce(root: str, prefix: str, limit: int = STREAMS) -> Producer:
            return Producer(root, lambda number: f"{prefix}{number}", limit, moments, fork(random))

        def late(number: int) -> str:
            return f"late/{number}"

        return {
            "hooks/a": produce(ROOT, "hooks/a/"),
            "hooks/b": produce(ROOT, "hooks/b/c/"),
            "jobs": produce(ROOT, "jobs/"),
            "orders": produce(ROOT, "orders/", 2),
            "late": Producer(ROOT, late, STREAMS, moments, fork(random), link=self._link),
            "bucket": produce(BUCKET, "b-"),
        }

    def _link(self, client: Client, path: str) -> None:
        """Link a stream explicitly to those that are to know of it, before anything is in it."""
        for subscriber in self.subscribers:
            if subscriber.covers(path):
                body = json.dumps({"streams": [path]}).encode()
                client.expect({204}, "POST", f"{subscriber.url}/streams", body)

    def _told_in(self, root: str, path: str) -> dict[str, Subscriber]:
        return {
            each.id: each for each in self.subscribers if each.root == root and each.config.get("wake_stream") == path
        }

    def prepare(self) -> None:
        """Make the bucket, the wake streams and the subscriptions, and learn the server's keys."""
        with closing(Client(self.place.port)) as client:
            self._create_everything(client)

    def _create_everything(self, client: Client) -> None:
        client.expect({200, 201}, "PUT", BUCKET)
        for root, path in _WAKE_STREAMS:
            client.expect({201}, "PUT", f"{root}/{path}", content_type="application/json")
        for subscriber in self.subscribers:
            client.expect({201}, "PUT", subscriber.url, json.dumps(subscriber.config).encode())
        # Whatever is signed later must be signed with these: keys survive.
        self.place.keys = json.loads(client.expect({200}, "GET", f"{ROOT}/__ds/jwks.json").body)

    def check_streams(self, client: Client) -> Ends:
        """Hold every stream against its producer; gives where the messages of each end."""
        ends: Ends = {}
        for name, producer in self.producers.items():
            root = BUCKET if name == "bucket" else ROOT
            ends.update({(root, path): found for path, found in producer.check(client).items()})
        return ends

    def covered(self, subscriber: Subscriber, ends: Ends) -> list[str]:
        """Give the streams that a subscription must be woken by."""
        return [path for root, path in ends if root == subscriber.root and subscriber.covers(path)]

    def check_wake_streams(self, client: Client) -> None:
        """See that every generation is told of at most once, in order."""
        for root, path in _WAKE_STREAMS:
            newest: dict[str, int] = {}
            for page in client.pages(f"{root}/{path}"):
                for event in json.loads(page.body):
                    name, generation = event["subscription_id"], event["generation"]
                    if generation <= newest.get(name, 0):
                        raise PromiseBroken(f"{path} tells of generation {generation} of {name} after {newest[name]}")
                    newest[name] = generation

    def close(self) -> None:
        """Take no more webhooks."""
        self._receiver.close()
