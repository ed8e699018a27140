"""Recording: the events of a model or an agent are appended to a stream and passed on to the caller.

The rule: the stream is closed at the end, also after an error. Then the last message describes the error
(`{"type": "error", "error": {"type": …, "message": …}}`), which is raised to the caller.

A producer appends each event once. Events within `linger_secs` share a request: a reader sees a token some milliseconds
after the caller, and a fast model does not cause a request for each token.
"""

from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from time import time_ns
from typing import Any, Generic, TypeVar

from msgspec import Struct

from everbrook.client._async.concurrency import Condition, Task, spawn
from everbrook.client._async.producer import AsyncProducer
from everbrook.client._async.sources import AsyncSource, opened
from everbrook.client._async.stream import AsyncStream
from everbrook.client._async.transport import AsyncTransport
from everbrook.client.content import Kind, kind_of
from everbrook.client.errors import ClientError
from everbrook.client.model_events import encode_event, encode_failure, encode_failure_discreetly
from everbrook.client.production import Batching
from everbrook.protocol.errors import Conflict, ProtocolError

T = TypeVar("T")

CLAIMED = "generation"
_LAST_EPOCH = 2**53 - 1
_UNFIT = {400, 413}

LAST_WORDS_SECS = 3.0
"""How long the caller waits until its error is recorded. A cancelled task must end, also if the server is down."""


class Recording(Struct, frozen=True):
    """The options of a recording."""

    encode: Callable[[Any], object] = encode_event
    """Makes the message of an event, as bytes of JSON or a value; None leaves the event out of the stream."""
    encode_error: Callable[[BaseException], object] = encode_failure
    """Makes the last message of a generation that failed or was stopped; None records nothing."""
    create: bool = True
    """Whether to create the stream if it does not exist."""
    linger_secs: float = 0.005
    claim: bool = False
    """Whether other recordings may compete for the stream: of those that claim it, only the first one records."""


async def tee(
    events: AsyncSource[T], stream: AsyncStream[Any], recording: Recording, *, detach: bool
) -> AsyncGenerator[T, None]:
    """Record events and pass them on. With `detach`, recording continues when the caller leaves."""
    passed = _recorded(events, stream, recording)
    if detach:
        passed = AsyncRelay(passed, stream._transport).taken()  # noqa: SLF001 - of our own
    async with aclosing(passed):
        async for event in passed:
            yield event


async def record(events: AsyncSource[Any], stream: AsyncStream[Any], recording: Recording) -> None:
    """Record events without passing them on."""
    async with aclosing(_recorded(events, stream, recording)) as passed:
        async for _ in passed:
            pass


async def _recorded(events: AsyncSource[T], stream: AsyncStream[Any], recording: Recording) -> AsyncGenerator[T, None]:
    if recording.create:
        await _create(stream, recording)
    recorder = AsyncRecorder(stream, _producer(stream, recording), recording)
    with stream._transport.before_closing(recorder.stop):  # noqa: SLF001 - of our own
        try:
            async with opened(events) as opened_events:
                async for event in opened_events:
                    await recorder.append(event)
                    yield event
            await recorder.finish()
        except BaseException as error:
            await recorder.fail(error)
            raise


def _producer(stream: AsyncStream[Any], recording: Recording) -> AsyncProducer[Any]:
    batching = Batching(linger_secs=recording.linger_secs)
    if not recording.claim:
        return stream._producer(batching)  # noqa: SLF001 - of our own
    # The first recording must win, but a higher epoch fences lower ones. So epochs count down with time: a later
    # recording takes a lower epoch and is refused. No other writer uses this epoch, so a duplicate is its own.
    epoch = _LAST_EPOCH - time_ns() // 1000
    return stream._producer(batching, id=CLAIMED, epoch=epoch, known_new=True)  # noqa: SLF001 - of our own


async def _create(stream: AsyncStream[Any], recording: Recording) -> None:
    try:
        head = await stream.create()
    except Conflict:
        # The stream exists with other settings, such as a lifetime, which do no harm.
        head = await stream.head()
    if kind_of(head.content_type) is not Kind.JSON and recording.encode is encode_event:
        raise ValueError(
            f"events are recorded as JSON, and the stream {stream.name!r} is {head.content_type}: pass `encode` and "
            "`encode_error`, functions that return messages of that type"
        )


class AsyncRecorder:
    """Appends the events of one recording, and its last message."""

    def __init__(self, stream: AsyncStream[Any], producer: AsyncProducer[Any], recording: Recording) -> None:
        self._stream = stream
        self._producer = producer
        self._recording = recording
        self._refused = False
        self._moved = Condition()
        self._ending = False
        self._said = False

    async def append(self, event: object) -> None:
        if self._ending:
            raise ClientError(f"the client was closed while events were recorded into {self._stream.name!r}")
        message = self._recording.encode(event)
        if message is not None:
            await self._attempt(self._producer.append, message)

    async def finish(self) -> None:
        await self._attempt(self._producer.close)

    async def fail(self, error: BaseException) -> None:
        """Record the error that ended the events, unless the stream itself has refused them."""
        if self._refused:
            return
        async with self._moved:
            if not self._ending:
                self._ending = True
                message = self._encoded(error)
                # The task is independent of the caller, which may be cancelled again meanwhile.
                spawn(self._say, message, error, name="everbrook: last words of a generation")
            await self._moved.wait_until(lambda: self._said, LAST_WORDS_SECS)

    async def stop(self) -> None:
        """Record that the generation was stopped."""
        await self.fail(GeneratorExit())

    def _encoded(self, error: BaseException) -> object:
        try:
            return self._recording.encode_error(error)
        except Exception as problem:  # noqa: BLE001 - it must not replace the error of the generation
            return self._substitute(error, problem)

    def _substitute(self, error: BaseException, problem: Exception) -> bytes:
        """Return a last message that can always be encoded."""
        error.add_note(f"the last message of {self._stream.name!r} is a substitute: {problem!r}")
        return encode_failure_discreetly(error)

    async def _say(self, message: object, error: BaseException) -> None:
        try:
            # The caller gets the error of the generation, which says more than an error of recording it.
            with suppress(ProtocolError, ClientError):
                await self._end(message, error)
        finally:
            async with self._moved:
                self._said = True
                self._moved.notify_all()

    async def _end(self, message: object, error: BaseException) -> None:
        """Close the stream with the last message, or with a substitute if that one can't be appended."""
        try:
            await self._producer.flush()  # if the last message is refused, no event may be in its batch
            await (self._producer.close() if message is None else self._producer.close(message))
        except Exception as problem:
            if isinstance(problem, ProtocolError | ClientError) and not _of_the_message(problem):
                raise
            await self._stream.close(self._substitute(error, problem))

    async def _attempt(self, function: Callable[..., Any], *args: object) -> None:
        try:
            await function(*args)
        except (ProtocolError, ClientError) as error:
            self._refused = not _of_the_message(error)
            raise


def _of_the_message(error: Exception) -> bool:
    """Return whether the server refused this message, and would take others."""
    return isinstance(error, ProtocolError) and error.status in _UNFIT


class AsyncRelay(Generic[T]):
    """Runs a source in a background task, and queues its events for a caller that may leave."""

    def __init__(self, events: AsyncGenerator[T, None], transport: AsyncTransport) -> None:
        self._events = events
        self._transport = transport
        self._running: Task | None = None
        self._waiting: deque[T] = deque()
        self._moved = Condition()
        self._ended = False
        self._left = False

    async def taken(self) -> AsyncGenerator[T, None]:
        """Run the source in the background, and yield each event."""
        self._running = running = spawn(self._run, name="everbrook: a generation")
        try:
            async with aclosing(self._given()) as given:
                async for event in given:
                    yield event
            await running.join()
        finally:
            self._left = True

    async def _given(self) -> AsyncGenerator[T, None]:
        while True:
            async with self._moved:
                await self._moved.wait_until(lambda: bool(self._waiting) or self._ended)
                if not self._waiting:
                    return
                event = self._waiting.popleft()
            yield event

    async def _run(self) -> None:
        try:
            with self._transport.before_closing(self._stop):
                async with aclosing(self._events) as events:
                    async for event in events:
                        await self._offer(event)
        finally:
            async with self._moved:
                self._ended = True
                self._moved.notify_all()

    async def _stop(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def _offer(self, event: T) -> None:
        if not self._left:
            async with self._moved:
                self._waiting.append(event)
                self._moved.notify_all()
