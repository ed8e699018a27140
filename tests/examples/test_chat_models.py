"""The chat asks the real client of OpenAI where there is a key; here a recording answers it, over HTTP."""

import json

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import Response

from everbrook.server.asgi import create_app
from examples.chat.app import answer
from tests.kit.asgi_mount import Mounted
from tests.kit.recordings import recorded
from tests.kit.server_thread import configured

api = FastAPI()
asked: list[object] = []


@api.post("/chat/completions")
async def complete(request: Request) -> Response:
    asked.append(await request.json())
    events = [json.dumps(event) for event in recorded("openai_chat")]
    return Response("".join(f"data: {event}\n\n" for event in (*events, "[DONE]")), media_type="text/event-stream")


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_openai_is_asked_with_the_whole_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [
        {"type": "question", "text": "Hello"},
        {"type": "text", "text": "Hi"},
        {"type": "question", "text": "How long?"},
    ]
    with Mounted(create_app(configured()), api) as served:
        monkeypatch.setenv("OPENAI_API_KEY", "no-key")
        monkeypatch.setenv("OPENAI_BASE_URL", served.origin)
        assert "".join([text async for text in answer(said)]) == "The Rhine is 1,230 km long."
    (request,) = asked
    assert [message["role"] for message in request["messages"]] == ["user", "assistant", "user"]  # type: ignore[index]
