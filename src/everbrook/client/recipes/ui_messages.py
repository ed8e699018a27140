"""The UI message stream of the Vercel AI SDK, version 1: what `useChat` reads, and resumes.

    return UIMessageResponse(chunks(openai.chat.completions.create(…, stream=True), read), stream)

The rule: a part that was begun is ended before another kind begins, and every message ends with `finish`.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

import msgspec

from everbrook.client._async.sources import AsyncSource, opened
from everbrook.client.model_events import failure_text

T = TypeVar("T")
Chunk: TypeAlias = dict[str, Any]
Read: TypeAlias = Callable[[T, "UIMessage"], Iterable[Chunk]]

HEADERS = {"X-Vercel-AI-UI-Message-Stream": "v1"}
DONE = b"data: [DONE]\n\n"


async def chunks(events: AsyncSource[T], read: Read[T], *, message_id: str | None = None) -> AsyncIterator[Chunk]:
    """Yield an answer as the chunks of one chat message. `read` is the function of the recipe for these events."""
    message = UIMessage(message_id)
    for chunk in message.start():
        yield chunk
    async with opened(events) as opened_events:
        async for event in opened_events:
            for chunk in read(event, message):
                yield chunk
    for chunk in message.finish():
        yield chunk


def read_text(event: str, message: "UIMessage") -> Iterator[Chunk]:
    """Read events that are pieces of text."""
    return message.text(event)


def encode_failure(error: BaseException) -> bytes:
    """Encode the error of a generation as the error chunk of `useChat`."""
    return msgspec.json.encode({"type": "error", "errorText": failure_text(error)})


def encode_failure_discreetly(_error: BaseException) -> bytes:
    """Encode an error chunk without the error's text, for readers that must not see it."""
    return msgspec.json.encode({"type": "error", "errorText": "An error occurred."})


class UIMessage:
    """One chat message under construction. Each method yields the chunks for one change of the message."""

    def __init__(self, message_id: str | None = None) -> None:
        self.finish_reason: str | None = None
        self._message_id = message_id
        self._open: tuple[str, str] | None = None
        self._tools: dict[object, ToolInput] = {}
        self._parts = 0

    def start(self) -> Iterator[Chunk]:
        yield {"type": "start"} | ({"messageId": self._message_id} if self._message_id else {})
        yield {"type": "start-step"}

    def text(self, delta: str, part: str = "text") -> Iterator[Chunk]:
        return self._grow("text", part, delta)

    def reasoning(self, delta: str, part: str = "reasoning") -> Iterator[Chunk]:
        return self._grow("reasoning", part, delta)

    def tool_input(self, key: object, delta: str, *, call_id: str = "", name: str = "") -> Iterator[Chunk]:
        """Add a part of the JSON input of a tool call. The first part of a key has the id and the name of the call."""
        if call_id and key not in self._tools:
            yield from self._end_open()
            self._tools[key] = ToolInput(call_id, name)
            yield {"type": "tool-input-start", "toolCallId": call_id, "toolName": name}
        if delta:
            tool = self._tools[key]
            tool.text += delta
            yield {"type": "tool-input-delta", "toolCallId": tool.call_id, "inputTextDelta": delta}

    def tool_call(self, call_id: str, name: str, value: object) -> Iterator[Chunk]:
        """Add a tool call with its complete input."""
        yield from self._end_open()
        yield {"type": "tool-input-available", "toolCallId": call_id, "toolName": name, "input": value}

    def tool_output(self, call_id: str, output: object) -> Iterator[Chunk]:
        yield {"type": "tool-output-available", "toolCallId": call_id, "output": output}

    def tool_failed(self, call_id: str, text: str) -> Iterator[Chunk]:
        yield {"type": "tool-output-error", "toolCallId": call_id, "errorText": text}

    def error(self, text: str) -> Iterator[Chunk]:
        yield from self.end_parts()
        self.finish_reason = "error"
        yield {"type": "error", "errorText": text}

    def next_step(self) -> Iterator[Chunk]:
        """Begin another round of the model, after the tools that it called."""
        yield from self.end_parts()
        yield from ({"type": "finish-step"}, {"type": "start-step"})

    def end_parts(self) -> Iterator[Chunk]:
        """End the open part: a text, or tool calls whose input is now complete."""
        yield from self._end_open()
        tools, self._tools = self._tools, {}
        for tool in tools.values():
            yield from self.tool_call(tool.call_id, tool.name, tool.value)

    def finish(self) -> Iterator[Chunk]:
        yield from self.end_parts()
        yield {"type": "finish-step"}
        yield {"type": "finish"} | ({"finishReason": self.finish_reason} if self.finish_reason else {})

    def _grow(self, kind: str, part: str, delta: str) -> Iterator[Chunk]:
        if not delta:
            return
        if self._open is None or self._open[0] != f"{kind}:{part}":
            yield from self._end_open()
            # Another part may interrupt a part of the library: its continuation needs an id of its own.
            self._parts += 1
            self._open = f"{kind}:{part}", f"{part}-{self._parts}"
            yield {"type": f"{kind}-start", "id": self._open[1]}
        yield {"type": f"{kind}-delta", "id": self._open[1], "delta": delta}

    def _end_open(self) -> Iterator[Chunk]:
        if self._open is not None:
            (kind, part), self._open = self._open, None
            yield {"type": f"{kind.partition(':')[0]}-end", "id": part}


class ToolInput:
    """The input of a tool call, as far as it has arrived."""

    def __init__(self, call_id: str, name: str) -> None:
        self.call_id = call_id
        self.name = name
        self.text = ""

    @property
    def value(self) -> object:
        """The parsed input, or its text if the model has written invalid JSON."""
        try:
            return msgspec.json.decode(self.text or "{}")
        except ValueError:
            return self.text
