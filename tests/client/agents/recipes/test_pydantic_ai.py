"""The events of a real agent's run survive a stream. Its model is the package's own test model."""

from typing import Any

import msgspec
import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from pydantic_ai.ui.vercel_ai import VercelAIAdapter
from pydantic_ai.ui.vercel_ai.request_types import SubmitMessage, TextUIPart, UIMessage

from everbrook.client.recipes.pydantic_ai import decode, encode, encode_chunk

pytestmark = pytest.mark.anyio

QUESTION = "How deep is the Rhine?"


def river_agent() -> Agent[None, str]:
    agent = Agent(TestModel(custom_output_text="It is 7 m deep."))

    @agent.tool_plain
    def depth(river: str) -> str:
        return f"{river}: 7 m"

    return agent


async def events_of_a_run() -> list[Any]:
    async with river_agent().run_stream_events(QUESTION) as events:
        return [event async for event in events]


async def test_events_come_back_as_what_they_were() -> None:
    *events, _ = await events_of_a_run()
    assert [decode(msgspec.json.decode(encode(event))) for event in events] == events


async def test_the_result_of_a_run_is_its_last_message() -> None:
    *_, result = await events_of_a_run()
    assert decode(msgspec.json.decode(encode(result))) == {
        "event_kind": "agent_run_result",
        "output": "It is 7 m deep.",
    }


async def test_a_token_takes_few_bytes() -> None:
    deltas = [encode(event) for event in await events_of_a_run() if event.event_kind == "part_delta"]
    assert max(map(len, deltas)) < 120


async def test_ui_messages_of_the_packages_own_adapter_are_recorded_without_their_end() -> None:
    asked = UIMessage(id="m1", role="user", parts=[TextUIPart(text=QUESTION)])
    adapter = VercelAIAdapter(river_agent(), run_input=SubmitMessage(id="c1", messages=[asked]), sdk_version=6)
    recorded = [encode_chunk(chunk) async for chunk in adapter.run_stream()]
    chunks = [msgspec.json.decode(message) for message in recorded if message]
    assert "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta") == "It is 7 m deep."
    assert (recorded[-1], chunks[-1]["type"]) == (None, "finish")
