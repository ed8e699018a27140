"""Producers: messages that arrive exactly once and in order, in batches, several of them under way at a time.

    async with stream.producer() as producer:
        async for token in tokens:
            await producer.append(token)

At the end of the block everything is in the stream, or an error says why not.
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
from everbrook.client.flow.producing import Batch, Batching, Production
from everbrook.client.heads import ProducerHead

T = TypeVar("T")

NOTHING: Any = object()
IDLE_SECS = 1.0


class AsyncProducer(Generic[T]):
    """A writer of one stream. Requests are made in the background; what goes wrong there is raised by the next call."""

    def __init__(
        self,
        transport: AsyncTransport,
        url: str,
        codec: Codec[T],
        content_type: Callable[[], Awaitable[str]],
        look_up: Callable[[str], Awaitable[ProducerHead]],
        *,
        batching: Batching,
        id: str | None = None,  # noqa: A002 - the protocol's word
        epoch: int | None = None,
        seq: int = 0,
        auto_claim: bool = False,
        resume: bool = False,
        known_new: bool = False,
    ) -> None:
        """Write to the stream at `url`, under an id of its own unless one is given.

        `known_new` says that nobody else uses this id in this epoch.
        """
        if resume and (id is None or epoch is not None or seq or auto_claim):
            raise ValueError("resume=True needs an id, and finds its epoch by itself: no epoch, seq or auto_claim")
        self._url = url
        self._codec = codec
        self._ask_content_type = content_type
        self._content_type: str | None = None
        known_new = known_new or id is None
        self._look_up = None if known_new or auto_claim else look_up
        self._resumes = resume
        self._opening = Condition()
        if epoch is None:
            # Later than any that a producer of this name has claimed, unless a clock is wrong: then it is fenced first.
            epoch = time_ns() // 1000 if auto_claim else 0
        self._production = Production(f"everbrook-{uuid4()}" if id is None else id, epoch, seq, batching)
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
        self._working = 0
        self._resting = 0
        self._error: Exception | None = None
        self._process = os.getpid()
        self._ended = False
        self._closes = False

    @property
    def offset(self) -> str | None:
        """Where the stream ended after the last batch that arrived."""
        return self._delivery.offset

    @property
    def position(self) -> str | None:
        """Where in its source the last message that is in the stream was: an earlier run's, before this one writes.

        It is known from the beginning of the `async with` block on. None says that nothing was written so far.
        """
        return self._delivery.position

    @property
    def id(self) -> str:
        """The name under which the server knows it."""
        return self._production.producer_id

    @property
    def epoch(self) -> int:
        """The epoch that it writes in."""
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
            self._ended = True  # an interrupt waits for nothing; what was taken is still sent in the background

    async def append(self, value: Any, *, position: str | None = None) -> None:
        """Take a message to be sent. Waits only while too much waits to be sent already.

        `position` says where the message is in its source: it is stored with it, for the next run to go on behind it.
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
                self._stir()

    async def flush(self) -> str | None:
        """Wait until everything that was appended so far is in the stream, and give the offset behind it."""
        self._require_process()
        async with self._changed:
            await self._finish()
        return self.offset

    async def close(self, value: Any = NOTHING, *, position: str | None = None) -> str | None:
        """End the stream behind everything that was appended, with a last message if one is given."""
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
        """Send everything, and let the stream be."""
        self._require_process()
        self._ended = True
        await self._end()

    async def _end(self) -> None:
        """Wait until everything was sent or something has failed: then nothing goes on behind the caller's back."""
        try:
            await self.flush()
        except Exception:
            await self._leave()
            raise
        await self._leave()

    async def _leave(self) -> None:
        for worker in self._workers:
            await worker.join()

    async def _type(self) -> str:
        if self._content_type is None:
            async with self._opening:
                if self._content_type is None:
                    self._content_type = await (self._ask() if self._look_up else self._ask_content_type())
        return self._content_type

    async def _ask(self) -> str:
        """Ask for the stream's type, and what the server knows of an earlier run of this producer."""
        assert self._look_up is not None  # noqa: S101 - asked before
        production = self._production
        found = await self._look_up(production.producer_id)
        known = found.known
        if self._resumes:
            if not found.tells:
                raise Unsupported("this server keeps no positions of producers: resume=True needs producer-position")
            if known and known.position is None:
                raise ProducerReused(
                    f"the producer {production.producer_id!r} has written without positions before: give another id"
                )
            self._delivery.position = known.position if known else None
            production.resume(known.epoch + 1 if known else 0, self._delivery.position or "")
        elif known and known.epoch == production.epoch and known.seq >= production.next_seq:
            raise ProducerReused(
                f"the producer {production.producer_id!r} has written in epoch {known.epoch} before: give a higher "
                "epoch, resume=True to go on where it was, or auto_claim=True to take over"
            )
        elif found.tells:
            self._delivery.known_new = True
        return found.content_type

    def _failed(self) -> bool:
        return self._error is not None

    def _require_process(self) -> None:
        """Refuse to work where its workers are not. The lock is not asked for: it may be held by one of them."""
        if self._process != os.getpid():
            raise ClientError("this producer belongs to the process that this one was forked from: make another here")

    def _require_open(self) -> None:
        if self._error is not None:
            raise self._error
        if self._ended:
            raise ValueError("this producer was closed or detached: nothing can be appended through it")

    async def _finish(self) -> None:
        production = self._production
        mark = production.mark()
        self._stir()
        await self._changed.wait_until(lambda: production.arrived(mark) or self._error is not None)
        if self._error is not None:
            for worker in self._workers:
                worker.cancel()
            raise self._error

    def _stir(self) -> None:
        """Wake the workers, and take another on if none of them rests. Needs the lock."""
        self._changed.notify_all()
        if self._error is not None or not self._production.waiting:
            return
        if not self._resting and self._working < self._max_workers:
            self._working += 1
            self._workers = [worker for worker in self._workers if not worker.done]
            self._workers.append(spawn(self._work, name=f"producer of {self._url}"))

    async def _work(self) -> None:
        while (batch := await self._next()) is not None:
            try:
                await self._delivery.deliver(batch)
            except Exception as error:  # noqa: BLE001 - whoever appends, flushes or closes next is told
                await self._fail(error)

    async def _next(self) -> Batch | None:
        """Wait for something to send. A worker without any leaves after a while, and when all is done."""
        production = self._production
        async with self._changed:
            while self._error is None:
                if production.ready(now := monotonic()):
                    batch = production.take()
                    self._stir()
                    return batch
                if production.idle and self._ended:
                    break
                wait_secs = production.wait_secs(now)
                if not await self._rest(wait_secs) and wait_secs is None:
                    break
            self._working -= 1
            return None

    async def _rest(self, wait_secs: float | None) -> bool:
        self._resting += 1
        try:
            if wait_secs is None:
                return await self._changed.wait_until(self._begun, IDLE_SECS)
            return await self._changed.wait_until(self._worth_a_look, wait_secs)
        finally:
            self._resting -= 1

    def _begun(self) -> bool:
        """Tell whether a batch has begun, which is to be waited for, or more."""
        return self._worth_a_look() or self._production.wait_secs(monotonic()) is not None

    def _worth_a_look(self) -> bool:
        production = self._production
        return self._error is not None or production.ready(monotonic()) or (self._ended and production.idle)

    async def _fail(self, error: Exception) -> None:
        async with self._changed:
            self._error = self._error or error
            self._changed.notify_all()
