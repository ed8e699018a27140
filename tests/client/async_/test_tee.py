"""Events go into a stream while they are passed on, and however they end, the stream says so."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

import pytest

from everbrook import AsyncClient, AsyncStream
from everbrook.client._async.concurrency import sleep
from everbrook.client.errors import ClientError
from everbrook.client.model_events import is_failure
from everbrook.client.tee import record, tee
from everbrook.protocol.errors import ProtocolError, StreamClosed

pytestmark = pytest.mark.anyio

WORDS = ["The", " Rhine", " flows"]
STOPPED = {"type": "error", "error": {"type": "cancelled", "message": "the generation was stopped before its end"}}


@pytest.fixture
def stream(client: AsyncClient) -> AsyncStream[Any]:
    return client.stream(f"answers/{uuid4()}")


async def words() -> AsyncIterator[str]:
    for word in WORDS:
        yield word


async def words_then_an_error() -> AsyncIterator[str]:
    yield WORDS[0]
    raise LookupError("no such river")


async def slow_words(closed: list[bool]) -> AsyncIterator[str]:
    try:
        for word in WORDS:
            yield word
            await sleep(0.02)
    finally:
        closed.append(True)


async def recorded(stream: AsyncStream[Any]) -> list[Any]:
    """Everything up to the end of the stream, which has to come."""
    for _ in range(500):
        if (await stream.head()).closed:
            return await stream.read().all()
        await sleep(0.02)
    raise AssertionError("the stream was not closed")


async def test_events_reach_the_caller_and_the_stream(stream: AsyncStream[Any]) -> None:
    passed = [word async for word in tee(words(), stream)]
    assert passed == WORDS
    assert await recorded(stream) == WORDS


async def test_the_stream_is_closed_when_the_events_end(stream: AsyncStream[Any]) -> None:
    await record(words(), stream)
    assert (await stream.head()).closed


async def test_an_error_of_the_events_is_raised(stream: AsyncStream[Any]) -> None:
    with pytest.raises(LookupError, match="no such river"):
        await record(words_then_an_error(), stream)


async def test_an_error_of_the_events_is_the_last_message(stream: AsyncStream[Any]) -> None:
    with pytest.raises(LookupError):
        await record(words_then_an_error(), stream)
    failure = {"type": "error", "error": {"type": "LookupError", "message": "no such river"}}
    assert await recorded(stream) == [WORDS[0], failure]


async def test_an_error_may_be_recorded_in_words_of_ones_own(stream: AsyncStream[Any]) -> None:
    with pytest.raises(LookupError):
        await record(words_then_an_error(), stream, encode_error=lambda _: {"oops": True})
    assert await recorded(stream) == [WORDS[0], {"oops": True}]


def raising(error: BaseException) -> object:
    raise KeyError(str(error))


@pytest.mark.parametrize(
    "encode_error", [raising, lambda _: 1j, lambda _: b"no JSON"], ids=["it raises", "it gives no JSON", "nor bytes"]
)
async def test_an_error_that_can_t_be_recorded_as_asked_for_is_recorded_by_its_type(
    stream: AsyncStream[Any], encode_error: Callable[[BaseException], object]
) -> None:
    with pytest.raises(LookupError, match="no such river") as raised:
        await record(words_then_an_error(), stream, encode_error=encode_error)
    failure = {"type": "error", "error": {"type": "LookupError", "message": "the generation failed"}}
    assert await recorded(stream) == [WORDS[0], failure]
    assert "is a substitute: " in raised.value.__notes__[0]


async def test_an_error_whose_words_are_no_text_is_raised_and_recorded(stream: AsyncStream[Any]) -> None:
    with pytest.raises(FileNotFoundError):
        await record(lambda: raising_files("\udcff"), stream)
    assert (await recorded(stream))[-1]["error"]["message"].endswith("no such file: \\udcff")


async def raising_files(name: str) -> AsyncIterator[str]:
    yield WORDS[0]
    raise FileNotFoundError(f"no such file: {name}")


async def test_an_event_that_the_stream_refuses_closes_it_too(stream: AsyncStream[Any]) -> None:
    with pytest.raises(ProtocolError):
        await record(words(), stream, encode=lambda _: b"no JSON")
    assert is_failure((await recorded(stream))[-1])


@pytest.mark.parametrize("detach", [False, True])
async def test_closing_the_client_stops_the_events_and_the_stream_says_so(
    server: str,
    stream: AsyncStream[Any],
    detach: bool,  # noqa: FBT001 - a case
) -> None:
    async with AsyncClient(server) as client:
        passed = tee(words_for_ever(), client.stream(stream.name), detach=detach)
        assert await anext(passed) == WORDS[0]
    *said, last = await recorded(stream)
    assert (said[:1], last) == (WORDS[:1], STOPPED)
    with suppress(ClientError):
        await passed.aclose()


async def test_events_can_t_be_taken_once_the_client_is_closed(server: str, stream: AsyncStream[Any]) -> None:
    async with AsyncClient(server) as client:
        passed = tee(words_for_ever(), client.stream(stream.name))
        await anext(passed)
    with pytest.raises(ClientError, match="the client was closed while events were recorded into 'answers/"):
        await anext(passed)


async def words_for_ever() -> AsyncIterator[str]:
    while True:
        yield WORDS[0]
        await sleep(0.02)


async def test_a_caller_who_leaves_stops_the_events_and_the_stream_says_so(stream: AsyncStream[Any]) -> None:
    closed: list[bool] = []
    async with aclosing(tee(slow_words(closed), stream)) as passed:
        async for _ in passed:
            break
    assert closed == [True]
    assert await recorded(stream) == [WORDS[0], STOPPED]


async def test_detached_events_go_on_when_the_caller_leaves(stream: AsyncStream[Any]) -> None:
    async with aclosing(tee(slow_words([]), stream, detach=True)) as passed:
        async for _ in passed:
            break
    assert await recorded(stream) == WORDS


async def test_detached_events_reach_a_caller_who_stays(stream: AsyncStream[Any]) -> None:
    assert [word async for word in tee(slow_words([]), stream, detach=True)] == WORDS


async def test_an_error_of_detached_events_reaches_a_caller_who_stays(stream: AsyncStream[Any]) -> None:
    with pytest.raises(LookupError):
        assert [word async for word in tee(words_then_an_error(), stream, detach=True)]


async def test_closing_the_stream_from_elsewhere_stops_the_events(stream: AsyncStream[Any]) -> None:
    closed: list[bool] = []
    passed = tee(slow_words(closed), stream)
    await anext(passed)
    await stream.close({"stopped": "by the user"})
    with pytest.raises(StreamClosed):
        assert [word async for word in passed]
    assert closed == [True]
    assert (await recorded(stream))[-1] == {"stopped": "by the user"}


async def test_a_stream_that_is_there_with_a_lifetime_of_its_own_is_used(stream: AsyncStream[Any]) -> None:
    await stream.create(ttl_secs=3600)
    await record(words(), stream)
    assert (await stream.head()).ttl_secs == 3600


async def test_events_may_come_from_a_context_which_is_left(stream: AsyncStream[Any]) -> None:
    left: list[bool] = []

    @asynccontextmanager
    async def run() -> AsyncIterator[AsyncIterator[str]]:
        yield words()
        left.append(True)

    await record(run(), stream)
    assert (left, await recorded(stream)) == ([True], WORDS)


async def test_events_may_come_from_a_function(stream: AsyncStream[Any]) -> None:
    await record(words, stream)
    assert await recorded(stream) == WORDS


async def test_events_may_be_what_a_coroutine_gives(stream: AsyncStream[Any]) -> None:  # async only
    async def create() -> AsyncIterator[str]:
        return words()

    await record(create(), stream)
    assert await recorded(stream) == WORDS


async def test_an_event_that_is_encoded_as_none_is_passed_on_only(stream: AsyncStream[Any]) -> None:
    passed = [word async for word in tee(words(), stream, encode=lambda word: None if word == "The" else word)]
    assert passed == WORDS
    assert await recorded(stream) == WORDS[1:]


async def test_an_event_that_is_no_json_fails_as_an_event_would(stream: AsyncStream[Any]) -> None:
    with pytest.raises(TypeError, match="type complex cannot be written as JSON"):
        await record([1j], stream)
    (failure,) = await recorded(stream)
    assert failure["error"]["type"] == "TypeError"


async def test_an_event_with_nan_is_recorded_as_the_error_it_is(stream: AsyncStream[Any]) -> None:
    with pytest.raises(ValueError, match="it holds nan or infinity"):
        await record([{"score": 0.5}, {"score": float("nan")}], stream)
    first, failure = await recorded(stream)
    assert (first, failure["error"]["type"]) == ({"score": 0.5}, "ValueError")
    assert "it holds nan or infinity" in failure["error"]["message"]


async def test_a_stream_of_text_is_refused_unless_one_says_how_to_write_events(client: AsyncClient) -> None:
    text = client.stream(f"answers/{uuid4()}", content_type="text/plain")
    with pytest.raises(ValueError, match=r"is text/plain: pass `encode`"):
        await record(words(), text)
    await record(words(), text, encode=str, encode_error=lambda _: None)
    assert await text.follow().text() == "The Rhine flows"


async def test_what_gives_no_events_is_named(stream: AsyncStream[Any]) -> None:
    with pytest.raises(TypeError, match=r"events are .*, got int"):
        await record(7, stream)  # type: ignore[call-overload]
