"""Events of the `openai` package: chunks of chat completions, and events of the Responses API.

answer = openai.chat.completions.create(model=…, messages=…, stream=True)
async for chunk in tee(answer, stream, encode=encode): …
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from everbrook.client.recipes.ui_messages import Chunk, UIMessage

FINISH_REASONS = {"tool_calls": "tool-calls", "function_call": "tool-calls", "content_filter": "content-filter"}

CHAT_CHUNK = "chat.completion.chunk"


def encode(event: BaseModel) -> bytes:
    """Write a chunk or an event as the API sent it: without the fields that it did not send."""
    return event.model_dump_json(exclude_unset=True, by_alias=True).encode()


def decode(message: dict[str, Any]) -> ChatCompletionChunk | ResponseStreamEvent:
    """Read a message as the class that it was."""
    if message.get("object") == CHAT_CHUNK:
        return ChatCompletionChunk.model_validate(message)
    return _responses().validate_python(message)


def read(event: ChatCompletionChunk | ResponseStreamEvent, message: UIMessage) -> Iterator[Chunk]:
    """Yield the chunks of a chat message that an event of either API makes."""
    if isinstance(event, ChatCompletionChunk):
        yield from _read_chat(event, message)
    else:
        yield from _read_response(event, message)


def _read_chat(chunk: ChatCompletionChunk, message: UIMessage) -> Iterator[Chunk]:
    for choice in chunk.choices[:1]:
        delta = choice.delta
        yield from message.reasoning(getattr(delta, "reasoning_content", None) or "")
        yield from message.text(delta.content or delta.refusal or "")
        for call in delta.tool_calls or ():
            function = call.function
            name, arguments = (function.name, function.arguments) if function else (None, None)
            yield from message.tool_input(call.index, arguments or "", call_id=call.id or "", name=name or "")
        if choice.finish_reason:
            yield from message.end_parts()
            message.finish_reason = FINISH_REASONS.get(choice.finish_reason, choice.finish_reason)


def _read_response(event: ResponseStreamEvent, message: UIMessage) -> Iterator[Chunk]:
    match event.type:
        case "response.output_text.delta" | "response.refusal.delta":
            yield from message.text(event.delta, event.item_id)
        case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
            yield from message.reasoning(event.delta, event.item_id)
        case "response.output_item.added" if event.item.type == "function_call":
            yield from message.tool_input(event.output_index, "", call_id=event.item.call_id, name=event.item.name)
        case "response.function_call_arguments.delta":
            yield from message.tool_input(event.output_index, event.delta)
        case "response.output_item.done":
            yield from message.end_parts()
        case "response.failed":
            text = event.response.error.message if event.response.error else "the response failed"
            yield from message.error(text)
        case "error":
            yield from message.error(event.message)
        case "response.completed":
            called = any(item.type == "function_call" for item in event.response.output)
            message.finish_reason = "tool-calls" if called else "stop"
        case "response.incomplete":
            message.finish_reason = "length"
        case _:
            pass


@cache
def _responses() -> TypeAdapter[ResponseStreamEvent]:
    return TypeAdapter(ResponseStreamEvent)
