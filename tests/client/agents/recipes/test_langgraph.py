"""What a real graph streams survives a stream, and makes a chat message. Its model is a fake, and needs no network."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph

from everbrook.client.recipes.langgraph import decode, encode, read
from everbrook.client.recipes.ui_messages import Chunk, UIMessage

pytestmark = pytest.mark.anyio

ANSWER = "The Rhine is 1,230 km long."
QUESTION: Any = {"messages": [("user", "How long is the Rhine?")]}


def river_graph() -> Any:  # noqa: ANN401 - the type of a compiled graph has five parameters
    model = GenericFakeChatModel(messages=iter([AIMessage(ANSWER)]))

    async def answer(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()


async def streamed(mode: str | list[str]) -> list[dict[str, Any]]:
    return [part async for part in river_graph().astream(QUESTION, stream_mode=mode, version="v2")]


def recorded(parts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [msgspec.json.decode(encode(part)) for part in parts]


def said(parts: Iterable[dict[str, Any]]) -> list[Chunk]:
    message = UIMessage()
    return [chunk for part in parts for chunk in read(part, message)]


def text_of(chunks: Iterable[Chunk]) -> str:
    return "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")


async def test_tokens_come_back_as_the_messages_that_they_were() -> None:
    parts = await streamed("messages")
    tokens = [decode(message)["data"][0] for message in recorded(parts)]
    assert tokens == [part["data"][0] for part in parts]
    assert {type(token) for token in tokens} == {AIMessageChunk}


async def test_a_token_is_recorded_with_its_node_and_no_other_metadata() -> None:
    (_, metadata) = recorded(await streamed("messages"))[0]["data"]
    assert metadata == {"langgraph_node": "answer", "langgraph_step": 1}


async def test_the_tokens_of_a_graph_make_its_answer() -> None:
    assert text_of(said(await streamed(["messages", "updates"]))) == ANSWER


async def test_updates_are_recorded_with_their_messages() -> None:
    (update,) = recorded(await streamed("updates"))
    (message,) = update["data"]["answer"]["messages"]
    assert (message["type"], message["content"]) == ("ai", ANSWER)


@pytest.mark.parametrize("mode", ["values", "updates", "tasks", "checkpoints", "debug", "custom"])
async def test_whatever_a_graph_streams_can_be_recorded(mode: str) -> None:
    parts = await streamed(mode)
    assert [message["type"] for message in recorded(parts)] == [part["type"] for part in parts]


async def test_events_make_the_answer_too() -> None:
    events = [event async for event in river_graph().astream_events(QUESTION, version="v2")]
    assert len(recorded(events)) == len(events)
    assert text_of(said(events)) == ANSWER


async def test_a_tool_call_and_its_result_belong_together() -> None:
    pieces = [
        AIMessageChunk(content="", tool_call_chunks=[tool_piece("depth", "", "call_1")]),
        AIMessageChunk(content="", tool_call_chunks=[tool_piece(None, '{"river": "Rhine"}', None)]),
        ToolMessage("7 m", tool_call_id="call_1"),
    ]
    chunks = said({"type": "messages", "ns": (), "data": (piece, {})} for piece in pieces)
    assert chunks[-2:] == [
        {"type": "tool-input-available", "toolCallId": "call_1", "toolName": "depth", "input": {"river": "Rhine"}},
        {"type": "tool-output-available", "toolCallId": "call_1", "output": "7 m"},
    ]


def tool_piece(name: str | None, args: str, call_id: str | None) -> Any:  # noqa: ANN401 - a TypedDict that they do not export
    return {"type": "tool_call_chunk", "name": name, "args": args, "id": call_id, "index": 0}
