"""Events of `pydantic_ai`: of `agent.run_stream_events(…)`, with tools and several rounds of the model.

    async for event in tee(agent.run_stream_events("How deep is the Rhine?"), stream, encode=encode): …

The last event, the result of the run, is recorded as `{"event_kind": "agent_run_result", "output": …}`.

The package writes the UI messages of the Vercel AI SDK itself; `encode_chunk` is for what its adapter gives:

    adapter = await VercelAIAdapter.from_request(request, agent=agent, sdk_version=6)
    return UIMessageResponse(adapter.run_stream(), stream, encode=encode_chunk)
"""

from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import AgentRunResultEvent, AgentStreamEvent
from pydantic_ai.messages import PartDeltaEvent
from pydantic_ai.ui.vercel_ai.response_types import BaseChunk, DoneChunk
from pydantic_core import to_json

RESULT = "agent_run_result"
SDK_VERSION = 6


def encode(event: AgentStreamEvent | AgentRunResultEvent[Any]) -> bytes:
    """Write an event. A delta goes without its empty fields: there is one for every token."""
    if isinstance(event, AgentRunResultEvent):
        return to_json({"event_kind": RESULT, "output": event.result.output})
    return _events().dump_json(event, exclude_none=isinstance(event, PartDeltaEvent))


def decode(message: dict[str, Any]) -> AgentStreamEvent | dict[str, Any]:
    """Read an event as the class that it was; the result of a run stays as it was written."""
    return message if message.get("event_kind") == RESULT else _events().validate_python(message)


def encode_chunk(chunk: BaseChunk) -> bytes | None:
    """Write a chunk of a UI message. The end is not recorded: the closed stream says it, and every reader is told."""
    return None if isinstance(chunk, DoneChunk) else chunk.encode(SDK_VERSION).encode()


@cache
def _events() -> TypeAdapter[AgentStreamEvent]:
    return TypeAdapter(AgentStreamEvent)
