"""Chat messages are made of the chunks that the AI SDK knows; the classes are those that pydantic-ai has for them."""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any

import msgspec
import pytest
from pydantic import TypeAdapter
from pydantic_ai.ui.vercel_ai import response_types

from everbrook.client.recipes import anthropic, openai
from everbrook.client.recipes.ui_messages import Chunk, UIMessage, chunks, encode_failure, read_text
from tests.kit.recordings import recorded
from tests.kit.recordings.playback import openai_client

pytestmark = pytest.mark.anyio

KNOWN: TypeAdapter[Any] = TypeAdapter(reduce(or_, response_types.BaseChunk.__subclasses__()))


def known(chunk: Chunk) -> Chunk:
    """The chunk as the class of its type reads and writes it."""
    read: Chunk = msgspec.json.decode(KNOWN.validate_python(chunk).encode(6))
    return read


def everything() -> Iterator[Chunk]:
    message = UIMessage("m1")
    yield from message.start()
    for event in recorded("openai_responses"):
        yield from openai.read(openai.decode(event), message)
    yield from message.next_step()
    for event in recorded("anthropic_messages"):
        yield from anthropic.read(anthropic.decode(event), message)
    yield from message.tool_output("toolu_01A", {"map": "…"})
    yield from message.tool_failed("call_9", "no ink")
    yield from message.error("overloaded")
    yield from message.finish()


def test_every_chunk_is_one_that_the_protocol_knows() -> None:
    made = list(everything())
    assert [known(chunk) for chunk in made] == made


def test_parts_that_begin_end_and_never_overlap() -> None:
    opened: list[str] = []
    for chunk in everything():
        if chunk["type"] in {"text-start", "reasoning-start"}:
            assert not opened
            opened.append(chunk["id"])
        elif chunk["type"] in {"text-end", "reasoning-end"}:
            assert opened.pop() == chunk["id"]
    assert not opened


def test_two_texts_around_a_tool_call_have_ids_of_their_own() -> None:
    message = UIMessage()
    made = [*message.text("a"), *message.tool_input(0, "{}", call_id="c", name="n"), *message.text("b")]
    first, second = (chunk["id"] for chunk in made if chunk["type"] == "text-start")
    assert first != second


def test_an_input_that_is_no_json_stays_text() -> None:
    message = UIMessage()
    *_, call = [*message.tool_input(0, '{"river": ', call_id="c", name="n"), *message.end_parts()]
    assert call["input"] == '{"river": '


async def test_the_answer_of_the_official_client_becomes_a_message() -> None:
    async with openai_client("openai_chat") as client:
        answer = client.chat.completions.create(model="gpt-5-mini", messages=[], stream=True)
        made = [chunk async for chunk in chunks(answer, openai.read, message_id="m1")]
    assert [chunk["type"] for chunk in made[:3]] == ["start", "start-step", "text-start"]
    assert made[-1] == {"type": "finish", "finishReason": "stop"}


async def test_plain_text_becomes_a_message() -> None:
    made = [chunk async for chunk in chunks(["Hello", " there"], read_text)]
    assert "".join(chunk.get("delta", "") for chunk in made) == "Hello there"


def test_a_failure_is_an_error_chunk() -> None:
    assert known(msgspec.json.decode(encode_failure(ValueError("no")))) == {"type": "error", "errorText": "no"}
