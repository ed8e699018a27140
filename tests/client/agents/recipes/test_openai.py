"""Events of OpenAI's APIs survive a stream, and make chat messages."""

from typing import Any

import msgspec
import pytest
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseTextDeltaEvent

from everbrook.client.recipes.openai import decode, encode, read as read_event
from everbrook.client.recipes.ui_messages import Chunk, UIMessage
from tests.kit.recordings import recorded

RECORDINGS = ("openai_chat", "openai_chat_tools", "openai_responses")


def chat_message(name: str) -> list[Chunk]:
    message = UIMessage()
    return [chunk for event in recorded(name) for chunk in read_event(decode(event), message)] + list(message.finish())


def joined(chunks: list[Chunk], kind: str) -> str:
    return "".join(chunk["delta"] for chunk in chunks if chunk["type"] == f"{kind}-delta")


def one(chunks: list[Chunk], kind: str) -> dict[str, Any]:
    (found,) = (chunk for chunk in chunks if chunk["type"] == kind)
    return found


@pytest.mark.parametrize("name", RECORDINGS)
def test_events_are_recorded_as_the_api_sent_them(name: str) -> None:
    events = recorded(name)
    assert [msgspec.json.decode(encode(decode(event))) for event in events] == events


def test_chunks_of_chat_completions_come_back_as_chunks() -> None:
    assert {type(decode(event)) for event in recorded("openai_chat")} == {ChatCompletionChunk}


def test_events_of_responses_come_back_as_their_own_classes() -> None:
    deltas = [event for event in recorded("openai_responses") if event["type"] == "response.output_text.delta"]
    assert {type(decode(event)) for event in deltas} == {ResponseTextDeltaEvent}


@pytest.mark.parametrize("name", ["openai_chat", "openai_responses"])
def test_text_deltas_make_one_text(name: str) -> None:
    chunks = chat_message(name)
    assert joined(chunks, "text") == "The Rhine is 1,230 km long."
    assert one(chunks, "text-start")["id"] == one(chunks, "text-end")["id"]


def test_reasoning_is_ended_before_the_text_begins() -> None:
    kinds = [chunk["type"] for chunk in chat_message("openai_responses")]
    assert kinds.index("reasoning-start") < kinds.index("reasoning-end") < kinds.index("text-start")


@pytest.mark.parametrize("name, tool", [("openai_chat_tools", "river_length"), ("openai_responses", "draw_map")])
def test_the_pieces_of_a_tool_call_make_its_input(name: str, tool: str) -> None:
    call = one(chat_message(name), "tool-input-available")
    assert (call["toolName"], call["input"]) == (tool, {"river": "Rhine"})


@pytest.mark.parametrize(
    "name, reason",
    [("openai_chat", "stop"), ("openai_chat_tools", "tool-calls"), ("openai_responses", "tool-calls")],
)
def test_a_message_says_why_it_finished(name: str, reason: str) -> None:
    assert chat_message(name)[-1] == {"type": "finish", "finishReason": reason}


def test_an_error_event_becomes_an_error_of_the_message() -> None:
    error = {"type": "error", "sequence_number": 3, "code": "rate_limit", "message": "slow down", "param": None}
    assert list(read_event(decode(error), UIMessage())) == [{"type": "error", "errorText": "slow down"}]
