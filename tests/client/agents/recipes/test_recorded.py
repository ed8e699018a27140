"""The whole way: the official packages' own streams, through `tee`, into a stream on a server, and out of it again."""

from typing import Any

import pytest

from everbrook import AsyncStream
from everbrook.client.recipes import anthropic, langgraph, openai, pydantic_ai
from everbrook.client.tee import tee
from tests.client.agents.recipes.test_langgraph import ANSWER, QUESTION, river_graph
from tests.client.agents.recipes.test_pydantic_ai import river_agent
from tests.kit.recordings import recorded
from tests.kit.recordings.playback import anthropic_client, openai_client

pytestmark = pytest.mark.anyio


async def test_chat_completions(stream: AsyncStream[Any]) -> None:
    async with openai_client("openai_chat") as client:
        answer = client.chat.completions.create(model="gpt-5-mini", messages=[], stream=True)
        passed = [chunk async for chunk in tee(answer, stream, encode=openai.encode)]
    assert [openai.decode(message) async for message in stream.follow()] == passed


async def test_responses(stream: AsyncStream[Any]) -> None:
    async with openai_client("openai_responses") as client:
        answer = client.responses.create(model="gpt-5-mini", input="How long is the Rhine?", stream=True)
        passed = [event async for event in tee(answer, stream, encode=openai.encode)]
    assert [openai.decode(message) async for message in stream.follow()] == passed


@pytest.mark.parametrize("encode", [anthropic.encode, None])
async def test_messages_of_anthropic(stream: AsyncStream[Any], encode: Any) -> None:  # noqa: ANN401 - or the default
    options = {"encode": encode} if encode else {}
    async with anthropic_client("anthropic_messages") as client:
        answer = client.messages.create(max_tokens=99, model="claude-haiku-4-5", messages=[], stream=True)
        passed = [event async for event in tee(answer, stream, **options)]
    assert [anthropic.decode(message) async for message in stream.follow()] == passed


async def test_the_helper_of_anthropic_which_is_a_context(stream: AsyncStream[Any]) -> None:
    async with anthropic_client("anthropic_messages") as client:
        answer = client.messages.stream(max_tokens=99, model="claude-haiku-4-5", messages=[])
        passed = [event async for event in tee(answer, stream, encode=anthropic.encode)]
    assert "text" in {event.type for event in passed}
    assert await stream.follow().all() == recorded("anthropic_messages")


async def test_a_graph_of_langgraph(stream: AsyncStream[Any]) -> None:
    parts = river_graph().astream(QUESTION, stream_mode=["messages", "updates"], version="v2")
    passed = [part async for part in tee(parts, stream, encode=langgraph.encode)]
    decoded = [langgraph.decode(message) async for message in stream.follow()]
    assert [part["type"] for part in decoded] == [part["type"] for part in passed]
    assert "".join(part["data"][0].text for part in decoded if part["type"] == "messages") == ANSWER


async def test_a_run_of_pydantic_ai(stream: AsyncStream[Any]) -> None:
    run = river_agent().run_stream_events("How deep is the Rhine?")
    passed = [event async for event in tee(run, stream, encode=pydantic_ai.encode)]
    assert [pydantic_ai.decode(message) async for message in stream.follow()][:-1] == passed[:-1]
