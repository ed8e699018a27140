# Written by tools/mirror.py from src/everbrook/client/_async/subscription.py: change that file, not this one.
"""Subscriptions: durable cursors over many streams that wake a worker when any of them has news (§6, §7)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from everbrook.client._sync.transport import Transport
from everbrook.client.address import Root
from everbrook.client.documents import decode_document
from everbrook.client.subscriptions import SubscriptionInfo, subscription_body
from everbrook.protocol.errors import SubscriptionNotFound

if TYPE_CHECKING:
    from everbrook.client.workers import Handler, Worker

_JSON = {"Content-Type": "application/json"}


class Subscription:
    """A handle of a subscription."""

    def __init__(self, transport: Transport, root: Root, id: str) -> None:  # noqa: A002 - the protocol's word
        self.id = id
        self._transport = transport
        self._root = root
        self._url = root.subscription(id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._url}>"

    def create(
        self,
        *,
        pattern: str | None = None,
        streams: Iterable[str] = (),
        webhook: str | None = None,
        wake_stream: str | None = None,
        lease_ttl_ms: int | None = None,
        description: str | None = None,
    ) -> SubscriptionInfo:
        """Subscribe to streams that match `pattern`, or are named.

        News go to the URL `webhook`, or to workers that watch `wake_stream`, which has to be there.
        """
        body = subscription_body(pattern, streams, webhook, wake_stream, lease_ttl_ms, description)
        answer = self._transport.request("PUT", self._url, headers=_JSON, content=body)
        return decode_document(answer.content, SubscriptionInfo, self._url)

    def read(self) -> SubscriptionInfo:
        """Describe the subscription: its configuration, its streams, and how far each was acked."""
        answer = self._transport.request("GET", self._url)
        return decode_document(answer.content, SubscriptionInfo, self._url)

    def delete(self) -> None:
        """Delete the subscription. Whatever a worker says afterwards is refused."""
        attempts = self._transport.attempts(f"DELETE {self._url}")
        try:
            self._transport.request("DELETE", self._url, attempts=attempts)
        except SubscriptionNotFound:
            if not attempts.uncertain:
                raise

    def add(self, *streams: str) -> None:
        """Link streams, from their tails on."""
        body = msgspec.json.encode({"streams": streams})
        self._transport.request("POST", f"{self._url}/streams", headers=_JSON, content=body)

    def remove(self, *streams: str) -> None:
        """Take streams back."""
        for stream in streams:
            self._transport.request("DELETE", self._root.linked(self.id, stream))

    def worker(self, handler: "Handler", *, name: str | None = None) -> "Worker":
        """Make a worker that hands what is new to a function. `run` it, here and anywhere else.

        It asks with the token, headers and parameters of this client.
        """
        from everbrook.client.workers import Worker  # noqa: PLC0415 - only workers need an event loop

        wake_stream = self.read().wake_stream
        if wake_stream is None:
            raise ValueError(f"the subscription {self.id!r} sends webhooks: only a pull-wake subscription has workers")
        return Worker(self._root.url, self.id, wake_stream, handler, name=name, transport=self._transport)
