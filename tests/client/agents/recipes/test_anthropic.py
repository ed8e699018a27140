"""Events of Anthropic's API survive a stream, and make chat messages."""

import msgspec
import pytest
from anthropic.types import RawContentBlockDeltaEvent

from everbrook.client.recipes.anthropic import decode, encode, read as read_event
from everbrook.client.recipes.ui_messages import Chunk, UIMessage
from tests.kit.recordings import recorded
from tests.kit.recordings.playback import anthropic_client

EVENTS = recorded("anthropic_messages")


def chat_message() -> list[Chunk]:
    message = UIMessage()
    return [chunk for event in EVENTS for chunk in read_event(decode(event), message)] + list(message.finish())


def test_events_are_recorded_as_the_api_sent_them() -> None:
    assert [msgspec.json.decode(encode(decode(event)) or b"") for event in EVENTS] == EVENTS


def test_deltas_come_back_as_their_own_class() -> None:
    deltas = [event for event in EVENTS if event["type"] == "content_block_delta"]
    assert {type(decode(event)) for event in deltas} == {RawContentBlockDeltaEvent}


@pytest.mark.anyio
async def test_what_the_package_adds_to_the_events_is_not_recorded() -> None:
    async with (
        anthropic_client("anthropic_messages") as client,
        client.messages.stream(max_tokens=100, model="claude-haiku-4-5", messages=[]) as stream,
    ):
        events = [event async for event in stream]
    assert "text" in {event.type for event in events}
    assert [msgspec.json.decode(message) for event in events if (message := encode(event))] == EVENTS


def test_thinking_text_and_tool_are_parts_one_after_the_other() -> None:
    kinds = [chunk["type"] for chunk in chat_message() if not chunk["type"].endswith("-delta")]
    assert kinds == [
        *("reasoning-start", "reasoning-end", "text-start", "text-end"),
        *("tool-input-start", "tool-input-available", "finish-step", "finish"),
    ]


def test_the_pieces_of_a_tool_call_make_its_input() -> None:
    (call,) = (chunk for chunk in chat_message() if chunk["type"] == "tool-input-available")
    assert (call["toolCallId"], call["input"]) == ("toolu_01A", {"river": "Rhine"})


def test_a_message_says_why_it_finished() -> None:
    assert chat_message()[-1] == {"type": "finish", "finishReason": "tool-calls"}
