"""Events of the `anthropic` package: of `messages.create(stream=True)`, and of `messages.stream(…)`.

    answer = anthropic.messages.stream(model=…, messages=…, max_tokens=…)
    async for event in tee(answer, stream, encode=encode): …

`messages.stream` adds events of its own, each of which repeats all that came before: those are passed on, not recorded.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from anthropic.types import RawMessageStreamEvent
from pydantic import BaseModel, TypeAdapter

from everbrook.client.recipes.ui_messages import Chunk, UIMessage

WIRE_TYPES = frozenset({
    "message_start",
    "message_delta",
    "message_stop",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
})  # fmt: skip
ADDED_BY_HELPER = {"message_stop": {"message"}, "content_block_stop": {"content_block"}}
FINISH_REASONS = {"max_tokens": "length", "tool_use": "tool-calls", "refusal": "content-filter"}


def encode(event: BaseModel) -> bytes | None:
    """Write an event as the API sent it; None for one that the API did not send."""
    kind = getattr(event, "type", "")
    if kind not in WIRE_TYPES:
        return None
    return event.model_dump_json(exclude_unset=True, by_alias=True, exclude=ADDED_BY_HELPER.get(kind)).encode()


def decode(message: dict[str, Any]) -> RawMessageStreamEvent:
    """Read a message as the class that it was."""
    return _events().validate_python(message)


def read(event: RawMessageStreamEvent, message: UIMessage) -> Iterator[Chunk]:
    """Yield the chunks of a chat message that an event makes."""
    match event.type:
        case "content_block_start" if event.content_block.type == "tool_use":
            block = event.content_block
            yield from message.tool_input(event.index, "", call_id=block.id, name=block.name)
        case "content_block_delta":
            yield from _read_delta(event.delta, event.index, message)
        case "content_block_stop":
            yield from message.end_parts()
        case "message_delta" if event.delta.stop_reason:
            message.finish_reason = FINISH_REASONS.get(event.delta.stop_reason, "stop")
        case _:
            pass


def _read_delta(delta: Any, index: int, message: UIMessage) -> Iterator[Chunk]:
    match delta.type:
        case "text_delta":
            yield from message.text(delta.text, f"text-{index}")
        case "thinking_delta":
            yield from message.reasoning(delta.thinking, f"reasoning-{index}")
        case "input_json_delta":
            yield from message.tool_input(index, delta.partial_json)
        case _:
            pass


@cache
def _events() -> TypeAdapter[RawMessageStreamEvent]:
    return TypeAdapter(RawMessageStreamEvent)
