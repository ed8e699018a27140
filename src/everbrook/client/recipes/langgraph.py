"""What a graph of LangGraph streams: parts of `astream(…, version="v2")` in any `stream_mode`, or of `astream_events`.

    parts = graph.astream(state, stream_mode=["messages", "updates"], version="v2")
    async for part in tee(parts, stream, encode=encode): …

Of the metadata that comes with each token only the node and the step are recorded: the rest repeats itself, and may
hold what readers must not see.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from pydantic import TypeAdapter

from everbrook.client.model_events import encode_event
from everbrook.client.recipes.ui_messages import Chunk, UIMessage

KEPT_METADATA = ("langgraph_node", "langgraph_step")
KEPT_OF_EVENT = ("event", "name", "run_id", "data")


def encode(part: Mapping[str, Any]) -> bytes:
    """Write a part or an event; messages are small objects with a `type`, wherever they are."""
    if "event" in part:
        return encode_event(_plain({key: part[key] for key in KEPT_OF_EVENT}))
    if part["type"] == "messages":
        message, metadata = part["data"]
        kept = {key: metadata[key] for key in KEPT_METADATA if key in metadata}
        return encode_event({**part, "data": [_plain(message), kept]})
    return encode_event(_plain(part))


def decode(message: dict[str, Any]) -> dict[str, Any]:
    """Read a part again; the token or message of a `messages` part is LangChain's own class."""
    if message.get("type") != "messages":
        return message
    token, metadata = message["data"]
    return {**message, "ns": tuple(message["ns"]), "data": (_messages().validate_python(token), metadata)}


def read(part: Mapping[str, Any], message: UIMessage) -> Iterator[Chunk]:
    """Yield the chunks of a chat message that a part makes: text, reasoning, tool calls and their results."""
    if part.get("event") == "on_chat_model_stream":
        yield from _read_message(part["data"]["chunk"], message)
    elif part.get("event") == "on_tool_end":
        yield from _read_message(part["data"]["output"], message)
    elif part.get("type") == "messages":
        yield from _read_message(part["data"][0], message)


def _read_message(said: object, message: UIMessage) -> Iterator[Chunk]:
    if isinstance(said, ToolMessage):
        yield from message.end_parts()
        yield from _read_result(said, message)
    elif isinstance(said, AIMessage):
        for place, block in enumerate(said.content_blocks):
            yield from _read_block(dict(block), place, message)
        if getattr(said, "chunk_position", "last") == "last":
            yield from message.end_parts()


def _read_result(said: ToolMessage, message: UIMessage) -> Iterator[Chunk]:
    if said.status == "error":
        yield from message.tool_failed(said.tool_call_id, said.text)
    else:
        yield from message.tool_output(said.tool_call_id, said.content)


def _read_block(block: dict[str, Any], place: int, message: UIMessage) -> Iterator[Chunk]:
    match block["type"]:
        case "text":
            yield from message.text(block["text"])
        case "reasoning":
            yield from message.reasoning(block.get("reasoning", ""))
        case "tool_call_chunk":
            key, delta = block.get("index", place), block.get("args") or ""
            yield from message.tool_input(key, delta, call_id=block.get("id") or "", name=block.get("name") or "")
        case "tool_call":
            yield from message.tool_call(block["id"], block["name"], block["args"])
        case _:
            pass


def _plain(value: object) -> object:
    """Write messages without the fields that say nothing, wherever they are."""
    if isinstance(value, BaseMessage):
        return {"type": value.type} | value.model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, Mapping):
        return {key: _plain(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(held) for held in value]
    return value if not isinstance(value, msgspec.Struct) else msgspec.to_builtins(value)


@cache
def _messages() -> TypeAdapter[AnyMessage]:
    return TypeAdapter(AnyMessage)
