# Written by tools/mirror.py from src/everbrook/client/_async/recorder.py: change that file, not this one.
"""Recording: the events of a model or an agent are appended to a stream and passed on to the caller.

The rule: the stream is closed at the end, also after an error. Then the last message describes the error
(`{"type": "error", "error": {"type": …, "message": …}}`), which is raised to the caller.

A producer appends each event once. Events within `linger_secs` share a request: a reader sees a token some milliseconds
after the caller, and a fast model does not cause a request for each token.
"""

from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from time import time_ns
from typing import Any, Generic, TypeVar

from msgspec import Struct

from everbrook.client._sync.concurrency import Condition, Task, spawn
from everbrook.client._sync.producer import Producer
from everbrook.client._sync.sources import Source, opened
from everbrook.client._sync.stream import Stream
from everbrook.client._sync.transport import Transport
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


def tee(events: Source[T], stream: Stream[Any], recording: Recording, *, detach: bool) -> Generator[T, None]:
    """Record events and pass them on. With `detach`, recording continues when the caller leaves."""
    passed = _recorded(events, stream, recording)
    if detach:
        passed = Relay(passed, stream._transport).taken()  # noqa: SLF001 - of our own
    with closing(passed):
        yield from passed


def record(events: Source[Any], stream: Stream[Any], recording: Recording) -> None:
    """Record events without passing them on."""
    with closing(_recorded(events, stream, recording)) as passed:
        for _ in passed:
            pass


def _recorded(events: Source[T], stream: Stream[Any], recording: Recording) -> Generator[T, None]:
    if recording.create:
        _create(stream, recording)
    recorder = Recorder(stream, _producer(stream, recording), recording)
    with stream._transport.before_closing(recorder.stop):  # noqa: SLF001 - of our own
        try:
            with opened(events) as opened_events:
                for event in opened_events:
                    recorder.append(event)
                    yield event
            recorder.finish()
        except BaseException as error:
            recorder.fail(error)
            raise


def _producer(stream: Stream[Any], recording: Recording) -> Producer[Any]:
    batching = Batching(linger_secs=recording.linger_secs)
    if not recording.claim:
        return stream._producer(batching)  # noqa: SLF001 - of our own
    # The first recording must win, but a higher epoch fences lower ones. So epochs count down with time: a later
    # recording takes a lower epoch and is refused. No other writer uses this epoch, so a duplicate is its own.
    epoch = _LAST_EPOCH - time_ns() // 1000
    return stream._producer(batching, id=CLAIMED, epoch=epoch, known_new=True)  # noqa: SLF001 - of our own


def _create(stream: Stream[Any], recording: Recording) -> None:
    try:
        head = stream.create()
    except Conflict:
        # The stream exists with other settings, such as a lifetime, which do no harm.
        head = stream.head()
    if kind_of(head.content_type) is not Kind.JSON and recording.encode is encode_event:
        raise ValueError(
            f"events are recorded as JSON, and the stream {stream.name!r} is {head.content_type}: pass `encode` and "
            "`encode_error`, functions that return messages of that type"
        )


class Recorder:
    """Appends the events of one recording, and its last message."""

    def __init__(self, stream: Stream[Any], producer: Producer[Any], recording: Recording) -> None:
        self._stream = stream
        self._producer = producer
        self._recording = recording
        self._refused = False
        self._moved = Condition()
        self._ending = False
        self._said = False

    def append(self, event: object) -> None:
        if self._ending:
            raise ClientError(f"the client was closed while events were recorded into {self._stream.name!r}")
        message = self._recording.encode(event)
        if message is not None:
            self._attempt(self._producer.append, message)

    def finish(self) -> None:
        self._attempt(self._producer.close)

    def fail(self, error: BaseException) -> None:
        """Record the error that ended the events, unless the stream itself has refused them."""
        if self._refused:
            return
        with self._moved:
            if not self._ending:
                self._ending = True
                message = self._encoded(error)
                # The task is independent of the caller, which may be cancelled again meanwhile.
                spawn(self._say, message, error, name="everbrook: last words of a generation")
            self._moved.wait_until(lambda: self._said, LAST_WORDS_SECS)

    def stop(self) -> None:
        """Record that the generation was stopped."""
        self.fail(GeneratorExit())

    def _encoded(self, error: BaseException) -> object:
        try:
            return self._recording.encode_error(error)
        except Exception as problem:  # noqa: BLE001 - it must not replace the error of the generation
            return self._substitute(error, problem)

    def _substitute(self, error: BaseException, problem: Exception) -> bytes:
        """Return a last message that can always be encoded."""
        error.add_note(f"the last message of {self._stream.name!r} is a substitute: {problem!r}")
        return encode_failure_discreetly(error)

    def _say(self, message: object, error: BaseException) -> None:
        try:
            # The caller gets the error of the generation, which says more than an error of recording it.
            with suppress(ProtocolError, ClientError):
                self._end(message, error)
        finally:
            with self._moved:
                self._said = True
                self._moved.notify_all()

    def _end(self, message: object, error: BaseException) -> None:
        """Close the stream with the last message, or with a substitute if that one can't be appended."""
        try:
            self._producer.flush()  # if the last message is refused, no event may be in its batch
            (self._producer.close() if message is None else self._producer.close(message))
        except Exception as problem:
            if isinstance(problem, ProtocolError | ClientError) and not _of_the_message(problem):
                raise
            self._stream.close(self._substitute(error, problem))

    def _attempt(self, function: Callable[..., Any], *args: object) -> None:
        try:
            function(*args)
        except (ProtocolError, ClientError) as error:
            self._refused = not _of_the_message(error)
            raise


def _of_the_message(error: Exception) -> bool:
    """Return whether the server refused this message, and would take others."""
    return isinstance(error, ProtocolError) and error.status in _UNFIT


class Relay(Generic[T]):
    """Runs a source in a background task, and queues its events for a caller that may leave."""

    def __init__(self, events: Generator[T, None], transport: Transport) -> None:
        self._events = events
        self._transport = transport
        self._running: Task | None = None
        self._waiting: deque[T] = deque()
        self._moved = Condition()
        self._ended = False
        self._left = False

    def taken(self) -> Generator[T, None]:
        """Run the source in the background, and yield each event."""
        self._running = running = spawn(self._run, name="everbrook: a generation")
        try:
            with closing(self._given()) as given:
                yield from given
            running.join()
        finally:
            self._left = True

    def _given(self) -> Generator[T, None]:
        while True:
            with self._moved:
                self._moved.wait_until(lambda: bool(self._waiting) or self._ended)
                if not self._waiting:
                    return
                event = self._waiting.popleft()
            yield event

    def _run(self) -> None:
        try:
            with self._transport.before_closing(self._stop), closing(self._events) as events:
                for event in events:
                    self._offer(event)
        finally:
            with self._moved:
                self._ended = True
                self._moved.notify_all()

    def _stop(self) -> None:
        if self._running is not None:
            self._running.cancel()

    def _offer(self, event: T) -> None:
        if not self._left:
            with self._moved:
                self._waiting.append(event)
                self._moved.notify_all()
