"""Pull-wake workers: they wait for wakes of a subscription, claim them, and pass new messages to a function (§7.2).

The rule: only handled messages are acked. If a worker dies, fails or loses its lease, the next claim gets the rest: so
every message is handled at least once, and a batch may arrive twice.

    async def handle(batch: Batch) -> None: ...

    worker = AsyncWorker("http://127.0.0.1:4437/v1/stream", "orders", "wake/orders", handle)
    await worker.run()   # until worker.stop()

`Worker` is the same for plain functions.
"""

import asyncio
import logging
import os
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from everbrook.client._async.transport import AsyncTransport
from everbrook.client.address import Root
from everbrook.client.errors import ClientError, Unreachable
from everbrook.client.leases import Batch, Lease, LeaseLost, Leases, keep_up
from everbrook.client.retry import Retry
from everbrook.protocol.errors import ProtocolError

if TYPE_CHECKING:
    import httpx2

    from everbrook.client._sync.transport import Transport

__all__ = ["AsyncWorker", "Batch", "Worker"]

T = TypeVar("T")
AsyncHandler = Callable[[Batch], Awaitable[None]]
Handler = Callable[[Batch], None]

logger = logging.getLogger(__name__)


class WorkerTuning(Struct, frozen=True, kw_only=True):
    """Timeouts of a worker that users do not set. Only tests choose others."""

    pauses: Retry = Retry(first_delay_secs=1.0, max_delay_secs=60.0)
    """The delays between attempts after the server or the handler has failed."""
    timeout_secs: float = 30.0
    release_timeout_secs: float = 5.0


DEFAULT_TUNING = WorkerTuning()


class HandlerFailed(Exception):
    """A handler raised an error, in contrast to a request of the worker."""


class AsyncWorker:
    """A worker on an event loop."""

    def __init__(
        self,
        base_url: str,
        subscription_id: str,
        wake_stream: str,
        handler: AsyncHandler,
        *,
        name: str | None = None,
        headers: Mapping[str, str] | None = None,
        client: "httpx2.AsyncClient | None" = None,
        transport: AsyncTransport | None = None,
        tuning: WorkerTuning = DEFAULT_TUNING,
    ) -> None:
        """Work on a subscription below a stream root, such as `https://host/v1/stream`.

        `handler` is called with one batch after the other. It is cancelled when the lease is lost; after an error, the
        rest is released and tried again later. The server tells other workers the `name` of the lease's holder.
        `headers` are sent with every request, except that acks have their own `Authorization`. The requests go through
        `client` or `transport`, if one is passed; its owner closes it. A transport has its own token and headers.
        """
        self._place = (Root(base_url.rstrip("/"), "/__ds"), subscription_id, wake_stream)
        self._subscription_id = subscription_id
        self._handler = handler
        self._name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._headers = headers or {}
        self._client = client
        self._transport = transport
        self._tuning = tuning
        self._stop = asyncio.Event()
        self._failures = 0

    def stop(self) -> None:
        """Make `run` return when the current batch is handled and acked."""
        self._stop.set()

    async def run(self) -> None:
        """Work until `stop`. While the server is down, it retries; an unknown subscription raises an error."""
        async with self._leases() as leases:
            tail: str | None = None
            cursor = ""
            while not self._stop.is_set():
                try:
                    # The tail is read before the claim: later wakes are polled from there, earlier ones claimed now.
                    tail = tail or await leases.wake_tail()
                    await self._work(leases)
                    tail, cursor = await self._unless_stopped(self._next_wake(leases, tail, cursor)) or (tail, cursor)
                except (Unreachable, LeaseLost) as error:
                    await self._pause(error)

    @asynccontextmanager
    async def _leases(self) -> AsyncIterator[Leases]:
        if self._transport is not None:
            yield Leases(self._transport, *self._place)
            return
        transport = AsyncTransport(
            self._client,
            home=self._place[0].url,
            token=None,
            headers=self._headers,
            params={},
            retry=self._tuning.pauses,
            timeout_secs=self._tuning.timeout_secs,
        )
        try:
            yield Leases(transport, *self._place)
        finally:
            await transport.close()

    async def _next_wake(self, leases: Leases, offset: str, cursor: str) -> tuple[str, str]:
        """Wait until the subscription may have work. A poll that ends without a wake counts too."""
        while True:
            events, offset, cursor = await leases.poll(offset, cursor)
            if not events or any(event.subscription_id == self._subscription_id for event in events):
                return offset, cursor

    async def _work(self, leases: Leases) -> None:
        """Claim a wake, if one is pending, and handle its messages."""
        lease = await leases.claim(self._name)
        if lease is None:
            return
        try:
            acks = await self._handle_all(leases, lease)
        except (LeaseLost, Unreachable):
            raise
        except HandlerFailed as failed:
            await self._release(leases, lease)
            logger.error(  # noqa: TRY400 - the log shows the error of the handler
                "the handler of subscription %r failed; its work is released",
                self._subscription_id,
                exc_info=failed.__cause__,
            )
            await self._pause(None)
            return
        except BaseException:
            await self._release(leases, lease)
            raise
        await self._insist(lease, lambda: leases.ack(lease, acks, done=True))
        self._failures = 0

    async def _handle_all(self, leases: Leases, lease: Lease) -> dict[str, str]:
        """Handle every batch of a wake. Returns the acks that are not sent yet."""
        acks: dict[str, str] = {}
        async for batch in self._batches(leases, lease):
            if acks:
                await self._insist(lease, partial(leases.ack, lease, acks))
            await self._handle(leases, lease, batch)
            acks = {batch.stream: batch.next_offset}
            if self._stop.is_set():
                break
        return acks

    async def _batches(self, leases: Leases, lease: Lease) -> AsyncIterator[Batch]:
        """Read each stream from its acked offset to the tail at the claim. Later messages cause another wake."""
        for stream in lease.streams:
            offset = stream.acked_offset
            while offset < stream.tail_offset:
                batch = await self._insist(lease, partial(leases.read, stream.path, offset))
                if batch is None or batch.next_offset <= offset:
                    break
                yield batch
                offset = batch.next_offset

    async def _insist(self, lease: Lease, request: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Retry a request of a lease until a response arrives or the lease has expired."""
        loop = asyncio.get_running_loop()
        good_until = loop.time() + lease.lease_ttl_ms / 1000
        while True:
            try:
                return await request()
            except Unreachable:
                if self._stop.is_set() or loop.time() >= good_until:
                    raise
            await self._unless_stopped(asyncio.sleep(self._tuning.pauses.first_delay_secs))

    async def _handle(self, leases: Leases, lease: Lease, batch: Batch) -> None:
        """Call the handler while the lease is renewed. If the lease is lost, the handler is cancelled."""
        handling = asyncio.ensure_future(self._handler(batch))
        keeping = asyncio.ensure_future(keep_up(leases, lease))
        try:
            await asyncio.wait((handling, keeping), return_when=asyncio.FIRST_COMPLETED)
            if not handling.done():
                keeping.result()
            await handling
        except Exception as error:
            if handling.done() and not handling.cancelled() and handling.exception() is error:
                raise HandlerFailed from error
            raise
        finally:
            handling.cancel()
            keeping.cancel()
            # Neither may outlive the batch: the next one would have two handlers, or an ack of the old lease.
            await asyncio.wait((handling, keeping))

    async def _unless_stopped(self, waiting: Coroutine[Any, Any, T]) -> T | None:
        tasks = asyncio.ensure_future(waiting), asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return tasks[0].result() if tasks[0].done() else None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _pause(self, error: Exception | None) -> None:
        """Wait before the next attempt with exponential back-off, or until `stop`."""
        self._failures += 1
        delay_secs = self._tuning.pauses.delay_secs(self._failures, random.random())  # noqa: S311
        if error:
            logger.warning("trying again in %.1f s: %s", delay_secs, error)
        await self._unless_stopped(asyncio.sleep(delay_secs))

    async def _release(self, leases: Leases, lease: Lease) -> None:
        """Release the lease, so that the rest can be claimed at once. If that fails, the lease expires."""
        try:
            async with asyncio.timeout(self._tuning.release_timeout_secs):
                await leases.release(lease)
        except (ClientError, ProtocolError, LeaseLost, TimeoutError) as error:
            logger.warning("the lease could not be released, and will expire: %s", error)


class Worker:
    """A worker for a plain function, which is called in a thread while the event loop renews the lease."""

    def __init__(
        self,
        base_url: str,
        subscription_id: str,
        wake_stream: str,
        handler: Handler,
        *,
        name: str | None = None,
        headers: Mapping[str, str] | None = None,
        transport: "Transport | None" = None,
        tuning: WorkerTuning = DEFAULT_TUNING,
    ) -> None:
        """Work as AsyncWorker does. A thread can't be cancelled: the handler runs to its end even if the lease is lost.

        Requests are made on an event loop, with the token, headers and parameters of a `transport` if one is given.
        """
        self._handler = handler
        shared = None if transport is None else AsyncTransport(None, **transport.options)
        self._worker = AsyncWorker(
            base_url,
            subscription_id,
            wake_stream,
            self._handle,
            name=name,
            headers=headers,
            transport=shared,
            tuning=tuning,
        )
        self._shared = shared
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self) -> None:
        """Work until `stop`, or an interrupt."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self._worker.run()
        finally:
            self._loop = None
            if self._shared is not None:
                await self._shared.close()

    def stop(self) -> None:
        """Make `run` return when the current batch is handled and acked. Threads and signal handlers may call it."""
        loop = self._loop
        if loop is None:
            self._worker.stop()
        else:
            with suppress(RuntimeError):  # the loop has just ended
                loop.call_soon_threadsafe(self._worker.stop)

    async def _handle(self, batch: Batch) -> None:
        running = asyncio.ensure_future(asyncio.to_thread(self._handler, batch))
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            # A handler must not get two batches at a time, so one that outlives its lease is waited for. Its error is
            # dropped, because the lease is lost or the program is interrupted.
            await asyncio.wait((running,))
            running.exception()
            raise
        running.result()
