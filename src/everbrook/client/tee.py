"""`tee` and `record`: the events of a model or an agent into a stream, with the sync or the async client.

    async for event in tee(events, stream):     # an AsyncStream
        ...

The stream decides whether the sync or the async side is used.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, TypedDict, TypeVar, Unpack, overload

from everbrook.client._async import recorder as _async
from everbrook.client._async.sources import AsyncSource
from everbrook.client._async.stream import AsyncStream
from everbrook.client._sync import recorder as _sync
from everbrook.client._sync.sources import Source
from everbrook.client._sync.stream import Stream
from everbrook.client.model_events import encode_event, encode_failure

T = TypeVar("T")

Encode = Callable[[Any], object]
EncodeError = Callable[[BaseException], object]


class RecordingOptions(TypedDict, total=False):
    """The options that `tee` and `record` share."""

    encode: Encode
    encode_error: EncodeError
    create: bool
    linger_secs: float


@overload
def tee(
    events: AsyncSource[T], stream: AsyncStream[Any], *, detach: bool = ..., **options: Unpack[RecordingOptions]
) -> AsyncGenerator[T, None]: ...


@overload
def tee(
    events: Source[T], stream: Stream[Any], *, detach: bool = ..., **options: Unpack[RecordingOptions]
) -> Generator[T, None, None]: ...


def tee(
    events: Any,
    stream: AsyncStream[Any] | Stream[Any],
    *,
    encode: Encode = encode_event,
    encode_error: EncodeError = encode_failure,
    create: bool = True,
    detach: bool = False,
    linger_secs: float = 0.005,
) -> Any:
    """Pass events on to the caller and record them in a stream, which is closed at their end.

    `events` may be an iterator, a context manager of one (`agent.run_stream_events(…)`, `messages.stream(…)`), an
    awaitable of one (`chat.completions.create(…, stream=True)`) or a function that returns one of these.

    An error of the source is recorded as the last message and raised. A caller that leaves (`break`, a cancelled task)
    stops the source, which is recorded; with `detach=True` the recording continues in the background to the end. An
    error of the stream stops the source and is raised: so another program can stop it by closing the stream.
    """
    if isinstance(stream, AsyncStream):
        return _async.tee(events, stream, _async.Recording(encode, encode_error, create, linger_secs), detach=detach)
    return _sync.tee(events, stream, _sync.Recording(encode, encode_error, create, linger_secs), detach=detach)


@overload
def record(
    events: AsyncSource[Any], stream: AsyncStream[Any], **options: Unpack[RecordingOptions]
) -> Coroutine[Any, Any, None]: ...


@overload
def record(events: Source[Any], stream: Stream[Any], **options: Unpack[RecordingOptions]) -> None: ...


def record(
    events: Any,
    stream: AsyncStream[Any] | Stream[Any],
    *,
    encode: Encode = encode_event,
    encode_error: EncodeError = encode_failure,
    create: bool = True,
    linger_secs: float = 0.005,
) -> Any:
    """Record all events as `tee` does, without passing them on."""
    if isinstance(stream, AsyncStream):
        return _async.record(events, stream, _async.Recording(encode, encode_error, create, linger_secs))
    return _sync.record(events, stream, _sync.Recording(encode, encode_error, create, linger_secs))
