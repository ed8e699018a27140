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
    """The options of `tee` and `record`, whose defaults stand there."""

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
    """Pass events on to the caller while they go into a stream, which is closed at their end.

    `events` may be an iterator, a context that gives one (`agent.run_stream_events(…)`, `messages.stream(…)`), an
    awaitable of one (`chat.completions.create(…, stream=True)`) or a function that gives one of these.

    An error of the events is recorded as the last message and raised. A caller who leaves (`break`, a cancelled task)
    stops them, and that is recorded; with `detach=True` they continue in the background, and the stream gets all of
    them. An error of the stream stops them and is raised: so another program can stop them by closing the stream.
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
