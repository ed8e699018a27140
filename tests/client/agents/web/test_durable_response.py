"""An answer outlives its response: readers leave, come back, and get every word once."""

from itertools import islice

import httpx2
import pytest

from everbrook import Client
from everbrook.client.responses import DurableResponse
from tests.client.agents.web.application import WORDS, Model
from tests.client.agents.web.events import behind, read_all, reading, words_of
from tests.kit.server_thread import eventually


def test_an_answer_is_streamed_and_ended(chat: str) -> None:
    events = read_all("POST", chat)
    assert words_of(events) == WORDS
    assert events[-1].type == b"end"


def test_the_first_word_comes_while_the_model_thinks_about_the_others(chat: str, model: Model) -> None:
    model.waits_after = 1
    with reading("POST", chat) as (_, events):
        assert words_of([next(events)]) == WORDS[:1]
    model.go_on.set()


def test_a_response_says_where_its_stream_is_and_where_it_begins(chat: str) -> None:
    with reading("POST", chat) as (response, _):
        url, offset = response.headers["Location"], response.headers["Stream-Offset"]
    followed = httpx2.get(url, params={"offset": offset, "live": "long-poll"})
    assert (followed.status_code, followed.json()[0]) == (200, WORDS[0])


@pytest.mark.parametrize("taken", [1, 7])
def test_a_reader_who_leaves_and_comes_back_gets_every_word_once(chat: str, model: Model, taken: int) -> None:
    model.waits_after = 7
    with reading("POST", chat) as (_, events):
        first = list(islice(events, taken))
    with reading("GET", chat, headers=behind(first[-1])) as (_, events):
        model.go_on.set()
        rest = list(events)
    assert words_of(first) + words_of(rest) == WORDS


def test_a_reader_may_come_back_anywhere_in_an_answer_that_is_whole(chat: str) -> None:
    events = read_all("POST", chat)[:-1]
    for place, event in enumerate(read_all("GET", chat)[:-1], 1):
        again = read_all("GET", chat, headers=behind(event))
        assert words_of(events[:place]) + words_of(again) == WORDS


def test_a_page_that_was_loaded_anew_gets_the_whole_answer(chat: str) -> None:
    with reading("POST", chat) as (_, events):
        next(events)
    assert words_of(read_all("GET", chat, params={"offset": "-1"})) == WORDS


def test_the_answer_goes_on_though_nobody_reads(chat: str) -> None:
    with reading("POST", chat) as (response, _):
        url = response.headers["Location"]
    assert eventually(lambda: "Stream-Closed" in httpx2.head(url).headers)
    assert httpx2.get(url).json() == WORDS


def test_a_second_start_joins_the_answer_that_runs(chat: str, model: Model) -> None:
    model.waits_after = 3
    with reading("POST", chat), reading("POST", chat) as (_, events):
        model.go_on.set()
        assert words_of(list(events)) == WORDS
    assert model.asked == 1


def test_a_start_after_the_end_gets_what_was_answered(chat: str, model: Model) -> None:
    answers = [words_of(read_all("POST", chat)) for _ in range(2)]
    assert (answers, model.asked) == ([WORDS, WORDS], 1)


def test_a_model_that_fails_ends_the_answer_with_an_error_that_tells_no_secrets(chat: str, model: Model) -> None:
    model.fails_after = 3
    *words, failure = words_of(read_all("POST", chat))
    assert words == WORDS[:3]
    assert failure == {"type": "error", "error": {"type": "LookupError", "message": "the generation failed"}}


def test_an_event_source_that_has_had_everything_is_told_to_stay_away(chat: str) -> None:
    *_, end = read_all("POST", chat)
    again = httpx2.get(chat, headers=behind(end))
    assert (again.status_code, again.content) == (204, b"")


def test_a_reader_who_has_had_every_word_and_not_the_end_is_told_of_it(chat: str) -> None:
    *_, last, end = read_all("POST", chat)
    assert read_all("GET", chat, headers=behind(last)) == [end]


def test_coming_back_to_an_answer_that_never_was_is_404(chat: str) -> None:
    answer = httpx2.get(chat)
    assert (answer.status_code, answer.json()["code"]) == (404, "stream_not_found")


@pytest.mark.parametrize("place", [0, 3, -1])
def test_coming_back_to_an_answer_that_was_begun_anew_is_412(chat: str, place: int) -> None:
    events = read_all("POST", chat)
    with reading("GET", chat) as (response, _):
        httpx2.delete(response.headers["Location"]).raise_for_status()
    assert words_of(read_all("POST", chat)) == WORDS
    answer = httpx2.get(chat, headers=behind(events[place]))
    assert (answer.status_code, answer.json()["code"]) == (412, "incarnation_mismatch")


@pytest.mark.parametrize("position", ["a b", "1~x", "~3", "0000000000000003"])
def test_coming_back_with_a_position_that_is_none_is_400(chat: str, position: str) -> None:
    read_all("POST", chat)
    answer = httpx2.get(chat, headers={"Last-Event-ID": position})
    assert answer.status_code == 400


def test_stopping_the_stream_stops_the_model(chat: str, model: Model) -> None:
    model.waits_after = 3
    with reading("POST", chat) as (response, events):
        first = list(islice(events, 3))
        httpx2.post(response.headers["Location"], headers={"Stream-Closed": "true"}).raise_for_status()
        model.go_on.set()
        assert words_of(first + list(events)) == WORDS[:3]
    assert eventually(lambda: model.stopped)


def test_an_answer_of_which_nothing_comes_any_more_is_ended(chat: str, model: Model) -> None:
    model.waits_after = 1
    with reading("POST", chat) as (_, events):
        next(events)
        word, failure = words_of(read_all("GET", chat.replace("/chat/", "/impatient/")))
    model.go_on.set()
    assert (word, failure["error"]["type"]) == (WORDS[0], "GenerationAbandoned")


def test_a_stream_of_the_sync_client_is_refused_at_once(server: str) -> None:
    with Client(server) as client, pytest.raises(TypeError, match="must be a stream of an AsyncClient"):
        DurableResponse([], client.stream("answers/1"))  # type: ignore[arg-type]
