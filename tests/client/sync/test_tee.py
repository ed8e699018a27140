# Written by tools/mirror.py from tests/client/async_/test_tee.py: change that file, not this one.
"""Events go into a stream while they are passed on, and however they end, the stream says so."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any
from uuid import uuid4

import pytest

from everbrook import Client, Stream
from everbrook.client._sync.concurrency import sleep
from everbrook.client.errors import ClientError
from everbrook.client.model_events import is_failure
from everbrook.client.tee import record, tee
from everbrook.protocol.errors import ProtocolError, StreamClosed

WORDS = ["The", " Rhine", " flows"]
STOPPED = {"type": "error", "error": {"type": "cancelled", "message": "the generation was stopped before its end"}}


@pytest.fixture
def stream(client: Client) -> Stream[Any]:
    return client.stream(f"answers/{uuid4()}")


def words() -> Iterator[str]:
    yield from WORDS


def words_then_an_error() -> Iterator[str]:
    yield WORDS[0]
    raise LookupError("no such river")


def slow_words(closed: list[bool]) -> Iterator[str]:
    try:
        for word in WORDS:
            yield word
            sleep(0.02)
    finally:
        closed.append(True)


def recorded(stream: Stream[Any]) -> list[Any]:
    """Everything up to the end of the stream, which has to come."""
    for _ in range(500):
        if stream.head().closed:
            return stream.read().all()
        sleep(0.02)
    raise AssertionError("the stream was not closed")


def test_events_reach_the_caller_and_the_stream(stream: Stream[Any]) -> None:
    passed = list(tee(words(), stream))
    assert passed == WORDS
    assert recorded(stream) == WORDS


def test_the_stream_is_closed_when_the_events_end(stream: Stream[Any]) -> None:
    record(words(), stream)
    assert stream.head().closed


def test_an_error_of_the_events_is_raised(stream: Stream[Any]) -> None:
    with pytest.raises(LookupError, match="no such river"):
        record(words_then_an_error(), stream)


def test_an_error_of_the_events_is_the_last_message(stream: Stream[Any]) -> None:
    with pytest.raises(LookupError):
        record(words_then_an_error(), stream)
    failure = {"type": "error", "error": {"type": "LookupError", "message": "no such river"}}
    assert recorded(stream) == [WORDS[0], failure]


def test_an_error_may_be_recorded_in_words_of_ones_own(stream: Stream[Any]) -> None:
    with pytest.raises(LookupError):
        record(words_then_an_error(), stream, encode_error=lambda _: {"oops": True})
    assert recorded(stream) == [WORDS[0], {"oops": True}]


def raising(error: BaseException) -> object:
    raise KeyError(str(error))


@pytest.mark.parametrize(
    "encode_error", [raising, lambda _: 1j, lambda _: b"no JSON"], ids=["it raises", "it gives no JSON", "nor bytes"]
)
def test_an_error_that_can_t_be_recorded_as_asked_for_is_recorded_by_its_type(
    stream: Stream[Any], encode_error: Callable[[BaseException], object]
) -> None:
    with pytest.raises(LookupError, match="no such river") as raised:
        record(words_then_an_error(), stream, encode_error=encode_error)
    failure = {"type": "error", "error": {"type": "LookupError", "message": "the generation failed"}}
    assert recorded(stream) == [WORDS[0], failure]
    assert "is a substitute: " in raised.value.__notes__[0]


def test_an_error_whose_words_are_no_text_is_raised_and_recorded(stream: Stream[Any]) -> None:
    with pytest.raises(FileNotFoundError):
        record(lambda: raising_files("\udcff"), stream)
    assert recorded(stream)[-1]["error"]["message"].endswith("no such file: \\udcff")


def raising_files(name: str) -> Iterator[str]:
    yield WORDS[0]
    raise FileNotFoundError(f"no such file: {name}")


def test_an_event_that_the_stream_refuses_closes_it_too(stream: Stream[Any]) -> None:
    with pytest.raises(ProtocolError):
        record(words(), stream, encode=lambda _: b"no JSON")
    assert is_failure(recorded(stream)[-1])


@pytest.mark.parametrize("detach", [False, True])
def test_closing_the_client_stops_the_events_and_the_stream_says_so(
    server: str,
    stream: Stream[Any],
    detach: bool,  # noqa: FBT001 - a case
) -> None:
    with Client(server) as client:
        passed = tee(words_for_ever(), client.stream(stream.name), detach=detach)
        assert next(passed) == WORDS[0]
    *said, last = recorded(stream)
    assert (said[:1], last) == (WORDS[:1], STOPPED)
    with suppress(ClientError):
        passed.close()


def test_events_can_t_be_taken_once_the_client_is_closed(server: str, stream: Stream[Any]) -> None:
    with Client(server) as client:
        passed = tee(words_for_ever(), client.stream(stream.name))
        next(passed)
    with pytest.raises(ClientError, match="the client was closed while events were recorded into 'answers/"):
        next(passed)


def words_for_ever() -> Iterator[str]:
    while True:
        yield WORDS[0]
        sleep(0.02)


def test_a_caller_who_leaves_stops_the_events_and_the_stream_says_so(stream: Stream[Any]) -> None:
    closed: list[bool] = []
    with closing(tee(slow_words(closed), stream)) as passed:
        for _ in passed:
            break
    assert closed == [True]
    assert recorded(stream) == [WORDS[0], STOPPED]


def test_detached_events_go_on_when_the_caller_leaves(stream: Stream[Any]) -> None:
    with closing(tee(slow_words([]), stream, detach=True)) as passed:
        for _ in passed:
            break
    assert recorded(stream) == WORDS


def test_detached_events_reach_a_caller_who_stays(stream: Stream[Any]) -> None:
    assert list(tee(slow_words([]), stream, detach=True)) == WORDS


def test_an_error_of_detached_events_reaches_a_caller_who_stays(stream: Stream[Any]) -> None:
    with pytest.raises(LookupError):
        assert list(tee(words_then_an_error(), stream, detach=True))


def test_closing_the_stream_from_elsewhere_stops_the_events(stream: Stream[Any]) -> None:
    closed: list[bool] = []
    passed = tee(slow_words(closed), stream)
    next(passed)
    stream.close({"stopped": "by the user"})
    with pytest.raises(StreamClosed):
        assert list(passed)
    assert closed == [True]
    assert recorded(stream)[-1] == {"stopped": "by the user"}


def test_a_stream_that_is_there_with_a_lifetime_of_its_own_is_used(stream: Stream[Any]) -> None:
    stream.create(ttl_secs=3600)
    record(words(), stream)
    assert stream.head().ttl_secs == 3600


def test_events_may_come_from_a_context_which_is_left(stream: Stream[Any]) -> None:
    left: list[bool] = []

    @contextmanager
    def run() -> Iterator[Iterator[str]]:
        yield words()
        left.append(True)

    record(run(), stream)
    assert (left, recorded(stream)) == ([True], WORDS)


def test_events_may_come_from_a_function(stream: Stream[Any]) -> None:
    record(words, stream)
    assert recorded(stream) == WORDS


def test_an_event_that_is_encoded_as_none_is_passed_on_only(stream: Stream[Any]) -> None:
    passed = list(tee(words(), stream, encode=lambda word: None if word == "The" else word))
    assert passed == WORDS
    assert recorded(stream) == WORDS[1:]


def test_an_event_that_is_no_json_fails_as_an_event_would(stream: Stream[Any]) -> None:
    with pytest.raises(TypeError, match="type complex cannot be written as JSON"):
        record([1j], stream)
    (failure,) = recorded(stream)
    assert failure["error"]["type"] == "TypeError"


def test_an_event_with_nan_is_recorded_as_the_error_it_is(stream: Stream[Any]) -> None:
    with pytest.raises(ValueError, match="it holds nan or infinity"):
        record([{"score": 0.5}, {"score": float("nan")}], stream)
    first, failure = recorded(stream)
    assert (first, failure["error"]["type"]) == ({"score": 0.5}, "ValueError")
    assert "it holds nan or infinity" in failure["error"]["message"]


def test_a_stream_of_text_is_refused_unless_one_says_how_to_write_events(client: Client) -> None:
    text = client.stream(f"answers/{uuid4()}", content_type="text/plain")
    with pytest.raises(ValueError, match=r"is text/plain: pass `encode`"):
        record(words(), text)
    record(words(), text, encode=str, encode_error=lambda _: None)
    assert text.follow().text() == "The Rhine flows"


def test_what_gives_no_events_is_named(stream: Stream[Any]) -> None:
    with pytest.raises(TypeError, match=r"events are .*, got int"):
        record(7, stream)  # type: ignore[call-overload]
