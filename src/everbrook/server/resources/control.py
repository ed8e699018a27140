"""The control resources of subscriptions, imported when they are first needed (§6, §7).

Signing and sending need libraries that most servers never use. Importing them takes more than half a second, so a
thread does that while the first request waits and all others are served.
"""

import asyncio
import sys
from collections.abc import Callable
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING

from everbrook.engine.engine import Engine
from everbrook.engine.subscriptions.service import Subscriptions
from everbrook.protocol.subscriptions.subscription import Subscription, Wake
from everbrook.server.deferred import Awaited
from everbrook.server.exchange import OnDelivery, Reply, Request
from everbrook.server.location import Locator
from everbrook.server.methods import TABLE
from everbrook.server.routes import Resource, Route
from everbrook.settings import WebhookSettings

if TYPE_CHECKING:
    from everbrook.server.resources.subscriptions import SubscriptionResource
    from everbrook.server.webhooks.worker_api import WorkerApi

Handler = Callable[[Request, bytes, Route], Reply]

MODULE = "everbrook.server.resources.subscriptions"


def _import() -> None:
    """Import everything that subscriptions need, and read the certificate authorities that webhooks trust."""
    for name in ("everbrook.server.webhooks.secrets", "everbrook.server.webhooks.worker_api", MODULE):
        import_module(name)
    import_module("everbrook.server.webhooks.delivery").system_tls()


class ControlResources:
    """The subscriptions of a server, and their resources."""

    def __init__(
        self, engine: Engine, settings: WebhookSettings, locator: Locator, on_delivery: OnDelivery | None = None
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._locator = locator
        self._on_delivery = on_delivery
        self.subscriptions = Subscriptions(engine, self._deliver)
        self._importing: asyncio.Future[object] | None = None
        if self.subscriptions.exist:
            # At the start no request waits yet, and the first wake may be due at once.
            _import()

    @cached_property
    def _workers(self) -> "WorkerApi":
        from everbrook.server.webhooks.secrets import Secrets
        from everbrook.server.webhooks.worker_api import WorkerApi, webhook_client

        client = webhook_client(self._settings)
        return WorkerApi(self._engine, Secrets(self._engine), client, self._locator, self._on_delivery)

    @cached_property
    def _resource(self) -> "SubscriptionResource":
        from everbrook.server.resources.subscriptions import SubscriptionResource

        return SubscriptionResource(
            self._engine, self.subscriptions, self._workers, allow_loopback_http=self._settings.allow_loopback_http
        )

    def _deliver(self, subscription: Subscription, wake: Wake) -> None:
        self._workers.deliver(self.subscriptions, subscription, wake)

    def handlers(self, resource: Resource) -> dict[bytes, Handler]:
        """Return the method handlers of a control resource."""
        return {method: partial(self._handle, row.handler) for method, row in TABLE[resource].items()}

    def _handle(self, handler: str, request: Request, common: bytes, route: Route) -> Reply:
        if self._importing.done() if self._importing else MODULE in sys.modules:
            return self._resource.handle(request, common, route, handler)
        if self._importing is None:
            self._importing = asyncio.get_running_loop().run_in_executor(None, _import)
        imported = self._importing

        def handle() -> Reply:
            imported.result()
            return self._resource.handle(request, common, route, handler)

        return Awaited(self._engine, common, lambda go_on: imported.add_done_callback(lambda _: go_on()), handle)

    def require_token(self, request: Request, route: Route) -> None:
        """Refuse a report without a token that was issued for its subscription."""
        self._resource.require_token(request, route)

    def rotate_keys(self) -> str:
        """Sign webhooks with a new key from now on. Return its id."""
        return self._workers.rotate_keys(self._settings.key_overlap_secs)

    async def close(self) -> None:
        """Stop the timers of subscriptions, and cancel the deliveries that are under way."""
        self.subscriptions.close()
        if "_workers" in self.__dict__:
            await self._workers.close()
