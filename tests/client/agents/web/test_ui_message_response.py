"""Answers for `useChat`: the UI message stream, replayed from its start while it is under way."""

import json
from typing import Any

import httpx2

from tests.client.agents.web.application import WORDS, Model
from tests.client.agents.web.events import read_all, reading
from tests.kit.server_thread import eventually


def chunks_of(text: str) -> list[dict[str, Any]]:
    *chunks, done, rest = text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(chunk.removeprefix("data: ")) for chunk in chunks]


def said(chunks: list[dict[str, Any]]) -> str:
    return "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")


def test_an_answer_is_a_ui_message_stream(ui: str) -> None:
    answer = httpx2.post(ui)
    chunks = chunks_of(answer.text)
    assert (answer.headers["X-Vercel-AI-UI-Message-Stream"], said(chunks)) == ("v1", "".join(WORDS))
    assert [chunk["type"] for chunk in chunks if chunk["type"] != "text-delta"] == [
        *("start", "start-step", "text-start", "text-end", "finish-step", "finish")
    ]


def test_an_answer_under_way_is_replayed_from_its_start(ui: str, model: Model) -> None:
    model.waits_after = 3
    with reading("POST", ui) as (_, events):
        next(events)
    with reading("GET", f"{ui}/stream") as (response, _):
        model.go_on.set()
        assert said(chunks_of(response.read().decode())) == "".join(WORDS)


def test_there_is_nothing_to_resume_where_no_answer_is_under_way(ui: str) -> None:
    assert httpx2.get(f"{ui}/stream").status_code == 204
    read_all("POST", ui)
    assert httpx2.get(f"{ui}/stream").status_code == 204


def test_a_model_that_fails_ends_the_message_with_an_error_chunk(ui: str, model: Model) -> None:
    model.fails_after = 3
    assert chunks_of(httpx2.post(ui).text)[-1] == {"type": "error", "errorText": "An error occurred."}


def test_a_message_survives_a_reader_who_leaves_at_once(ui: str) -> None:
    with reading("POST", ui):
        pass
    assert eventually(lambda: httpx2.get(f"{ui}/stream").status_code == 204)
    assert said(chunks_of(httpx2.post(ui).text)) == "".join(WORDS)
