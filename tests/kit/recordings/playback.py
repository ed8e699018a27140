"""The official clients of OpenAI and Anthropic, answered from recordings: no network, no key."""

import json
from collections.abc import Mapping
from typing import Any

import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from tests.kit.recordings import recorded

NO_KEY = "no-key"


def openai_client(name: str) -> AsyncOpenAI:
    """An OpenAI client whose every answer is a recording."""
    done = b"data: [DONE]\n\n" if name.startswith("openai_chat") else b""
    return AsyncOpenAI(api_key=NO_KEY, http_client=_http(_events(name) + done), max_retries=0)


def anthropic_client(name: str) -> AsyncAnthropic:
    """An Anthropic client whose every answer is a recording."""
    return AsyncAnthropic(api_key=NO_KEY, http_client=_http(_events(name)), max_retries=0)


def _http(body: bytes) -> httpx2.AsyncClient:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, content=body, request=request)

    return httpx2.AsyncClient(transport=httpx2.MockTransport(answer))


def _events(name: str) -> bytes:
    return b"".join(_event(event) for event in recorded(name))


def _event(event: Mapping[str, Any]) -> bytes:
    kind = f"event: {event['type']}\n" if "type" in event else ""
    return f"{kind}data: {json.dumps(event)}\n\n".encode()
