"""Producers: append messages exactly once and in order, in batches, several of them in flight at a time.

    async with stream.producer() as producer:
        async for token in tokens:
            await producer.append(token)

At the end of the block all messages are in the stream, or an error is raised.
"""

import os
from collections.abc import Awaitable, Callable
from time import monotonic, time_ns
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from uuid import uuid4

from everbrook.client._async.concurrency import Condition, Task, spawn
from everbrook.client._async.delivery import AsyncDelivery
from everbrook.client._async.transport import AsyncTransport
from everbrook.client.content import Codec, kind_of
from everbrook.client.errors import ClientError, ProducerReused, Unsupported
from everbrook.client.models import ProducerHead
from everbrook.client.production import Batching, ProducerBatch, Production

T = TypeVar("T")

NOTHING: Any = object()
IDLE_SECS = 1.0


class AsyncProducer(Generic[T]):
    """A writer of one stream. It sends requests in the background; if one fails, the next call raises its error."""

    def __init__(
        self,
        transport: AsyncTransport,
        url: str,
        codec: Codec[T],
        content_type: Callable[[], Awaitable[str]],
        look_up: Callable[[str], Awaitable[ProducerHead]],
        *,
        batching: Batching,
        id: str | None = None,
        epoch: int | None = None,
        seq: int = 0,
        auto_claim: bool = False,
        resume: bool = False,
        known_new: bool = False,
    ) -> None:
        """Write to the stream at `url`, under a new id unless one is given.

        `known_new` means that no other producer uses this id in this epoch.
        """
        if resume and (id is None or epoch is not None or seq or auto_claim):
            raise ValueError(
                "resume=True needs an id and determines the epoch itself: pass an id, and no epoch, seq or auto_claim; "
                f"got {id=}, {epoch=}, {seq=}, {auto_claim=}"
            )
        self._url = url
        self._codec = codec
        self._ask_content_type = content_type
        self._content_type: str | None = None
        known_new = known_new or id is None
        self._look_up = None if known_new or auto_claim else look_up
        self._resumes = resume
        self._opening = Condition()
        name = f"everbrook-{uuid4()}" if id is None else id
        self._production = Production(name, _first_epoch(epoch, auto_claim=auto_claim), seq, batching)
        self._changed = Condition()
        self._delivery = AsyncDelivery(
            transport,
            url,
            self._type,
            self._production,
            self._changed,
            given_up=self._failed,
            auto_claim=auto_claim,
            known_new=known_new or resume,
        )
        self._max_workers = batching.max_in_flight
        self._workers: list[Task] = []
        self._worker_count = 0
        self._idle_count = 0
        self._error: Exception | None = None
        self._process = os.getpid()
        self._ended = False
        self._closes = False

    @property
    def offset(self) -> str | None:
        """The tail of the stream after the last batch that was accepted, or None."""
        return self._delivery.offset

    @property
    def position(self) -> str | None:
        """The position of the last message in the stream; at first that of an earlier run.

        It is known once the `async with` block is entered. None means that this producer has not written yet.
        """
        return self._delivery.position

    @property
    def id(self) -> str:
        """The producer id."""
        return self._production.producer_id

    @property
    def epoch(self) -> int:
        """The epoch of the next append."""
        return self._production.epoch

    async def __aenter__(self) -> Self:
        if self._resumes:
            await self._type()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, Exception | GeneratorExit):
            await self.detach()
        else:
            self._ended = True  # an interrupt must not wait for the server: queued messages are sent in the background

    async def append(self, value: Any, *, position: str | None = None) -> None:
        """Take a message to be sent. Waits only while the buffer is full.

        `position` is the place of the message in its source. It is stored with the message, so that the next run can
        continue after it.
        """
        self._require_process()
        message = self._codec.encode(kind_of(await self._type()), value)
        production = self._production
        async with self._changed:
            self._require_open()
            if not production.room:
                await self._changed.wait_until(lambda: production.room or self._error is not None)
                self._require_open()
            if production.add(message, monotonic(), position):
                self._wake_workers()

    async def flush(self) -> str | None:
        """Wait until all messages so far are in the stream, and return the offset after them."""
        self._require_process()
        async with self._changed:
            await self._finish()
        return self.offset

    async def close(self, value: Any = NOTHING, *, position: str | None = None) -> str | None:
        """Close the stream after all messages so far, with a last message if one is given."""
        self._require_process()
        message = None if value is NOTHING else self._codec.encode(kind_of(await self._type()), value)
        await self._type()
        async with self._changed:
            if self._error is None and not self._closes:
                self._require_open()
                self._production.end(message, position)
                self._ended = self._closes = True
        await self._end()
        return self.offset

    async def detach(self) -> None:
        """Send all messages and end the producer, without closing the stream."""
        self._require_process()
        self._ended = True
        await self._end()

    async def _end(self) -> None:
        """Wait until all messages are sent or one has failed, and until no worker runs any more."""
        try:
            await self.flush()
        except Exception:
            await self._join_workers()
            raise
        await self._join_workers()

    async def _join_workers(self) -> None:
        for worker in self._workers:
            await worker.join()

    async def _type(self) -> str:
        if self._content_type is None:
            async with self._opening:
                if self._content_type is None:
                    look_up = self._look_up
                    self._content_type = await (self._ask(look_up) if look_up else self._ask_content_type())
        return self._content_type

    async def _ask(self, look_up: Callable[[str], Awaitable[ProducerHead]]) -> str:
        """Ask the server for the stream's content type and for the state of an earlier run of this producer."""
        production = self._production
        found = await look_up(production.producer_id)
        known = found.known
        if self._resumes:
            if not found.has_positions:
                raise Unsupported(
                    "this server does not store positions of producers (the extension producer-position), which "
                    "resume=True needs"
                )
            if known and known.position is None:
                raise ProducerReused(
                    f"the producer {production.producer_id!r} has written without positions before: pass another id"
                )
            self._delivery.position = known.position if known else None
            production.resume(known.epoch + 1 if known else 0, self._delivery.position or "")
        elif known and known.epoch == production.epoch and known.seq >= production.next_seq:
            raise ProducerReused(
                f"the producer {production.producer_id!r} has written in epoch {known.epoch} before: pass a higher "
                "epoch, resume=True to continue, or auto_claim=True to take over"
            )
        elif found.has_positions:
            self._delivery.known_new = True
        return found.content_type

    def _failed(self) -> bool:
        return self._error is not None

    def _require_process(self) -> None:
        """Refuse to work in a forked process: it has no workers, and a worker of the parent may have held the lock."""
        if self._process != os.getpid():
            raise ClientError("this producer belongs to the parent process: make another one in this process")

    def _require_open(self) -> None:
        if self._error is not None:
            raise self._error
        if self._ended:
            raise ValueError("this producer is closed or detached, and takes no more messages")

    async def _finish(self) -> None:
        production = self._production
        mark = production.mark()
        self._wake_workers()
        await self._changed.wait_until(lambda: production.arrived(mark) or self._error is not None)
        if self._error is not None:
            for worker in self._workers:
                worker.cancel()
            raise self._error

    def _wake_workers(self) -> None:
        """Wake the workers, and start another one if none of them is idle. The caller holds the lock."""
        self._changed.notify_all()
        if self._error is not None or not self._production.waiting:
            return
        if not self._idle_count and self._worker_count < self._max_workers:
            self._worker_count += 1
            self._workers = [worker for worker in self._workers if not worker.done]
            self._workers.append(spawn(self._work, name=f"producer of {self._url}"))

    async def _work(self) -> None:
        while (batch := await self._next()) is not None:
            try:
                await self._delivery.deliver(batch)
            except Exception as error:  # noqa: BLE001 - the next call of append, flush or close raises it
                await self._fail(error)

    async def _next(self) -> ProducerBatch | None:
        """Wait for a batch. Returns None, which ends the worker, after an idle second or when all batches are sent."""
        production = self._production
        async with self._changed:
            while self._error is None:
                if production.ready(now := monotonic()):
                    batch = production.take()
                    self._wake_workers()
                    return batch
                if production.idle and self._ended:
                    break
                wait_secs = production.wait_secs(now)
                if not await self._wait(wait_secs) and wait_secs is None:
                    break
            self._worker_count -= 1
            return None

    async def _wait(self, wait_secs: float | None) -> bool:
        self._idle_count += 1
        try:
            if wait_secs is None:
                return await self._changed.wait_until(self._begun, IDLE_SECS)
            return await self._changed.wait_until(self._has_work, wait_secs)
        finally:
            self._idle_count -= 1

    def _begun(self) -> bool:
        """Return whether a batch is ready, or is lingering and will be ready at a known time."""
        return self._has_work() or self._production.wait_secs(monotonic()) is not None

    def _has_work(self) -> bool:
        production = self._production
        return self._error is not None or production.ready(monotonic()) or (self._ended and production.idle)

    async def _fail(self, error: Exception) -> None:
        async with self._changed:
            self._error = self._error or error
            self._changed.notify_all()


def _first_epoch(given: int | None, *, auto_claim: bool) -> int:
    """Choose the epoch of the first append.

    The time in microseconds is above every epoch that a producer of this id has claimed. If a clock was wrong and it is
    not, the first append is fenced, and the next epoch is claimed.
    """
    if given is None:
        return time_ns() // 1000 if auto_claim else 0
    return given
