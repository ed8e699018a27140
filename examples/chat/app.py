"""A chat whose answers survive reloads, sleeping laptops and broken connections.

Each turn, a question and its answer, is a stream: `chats/{chat}/{turn}`. A request only starts the answer, which is
recorded in the stream in the background; every page reads the stream from its own position. The page names turns by
their time, so that they are listed in the order of the chat.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Path as PathParameter, Request
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel

from everbrook import AsyncClient, AsyncStream
from everbrook.client.generation import drain
from everbrook.client.responses import DurableResponse
from everbrook.protocol.errors import NotFound, StreamClosed

HERE = Path(__file__).parent
OFFICIAL_CLIENT = HERE / "node_modules/@durable-streams/client/dist/index.js"
KEPT_SECS = 30 * 24 * 3600
LONGEST_THOUGHT_SECS = 120
WORDS_PER_SEC = float(os.environ.get("CHAT_WORDS_PER_SEC", "12"))

Name = Annotated[str, PathParameter(pattern=r"^[a-z0-9-]{1,40}$")]

client: AsyncClient  # the server at EVERBROOK_URL, or on this machine


class Question(BaseModel):
    text: str


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    global client
    async with AsyncClient() as client:
        yield
        await drain(timeout_secs=5)  # answers that are not complete are recorded as stopped


app = FastAPI(lifespan=lifespan)


def stream_of(chat: str, turn: str) -> AsyncStream[Any]:
    return client.stream(f"chats/{chat}/{turn}")


async def turns_of(chat: str) -> list[str]:
    return [info.name.rpartition("/")[2] async for info in client.list(f"chats/{chat}/")]


@app.get("/api/chats/{chat}")
async def turns(chat: Name) -> list[dict[str, str]]:
    """List the turns, with the URLs of their streams for pages that read them directly."""
    return [{"turn": turn, "stream": stream_of(chat, turn).url} for turn in await turns_of(chat)]


@app.post("/api/chats/{chat}/{turn}")
async def ask(chat: Name, turn: Name, question: Question) -> DurableResponse:
    """Start an answer. A repeated request, from a double click or a retry, does not start another one."""
    return DurableResponse(
        lambda: converse(chat, turn, question.text),
        stream_of(chat, turn),
        ttl_secs=KEPT_SECS,
        abandoned_after_secs=LONGEST_THOUGHT_SECS,
    )


@app.get("/api/chats/{chat}/{turn}")
async def resume(chat: Name, turn: Name, request: Request) -> DurableResponse:
    """Continue to read a turn, whether it is complete or not."""
    return DurableResponse.resume(stream_of(chat, turn), request, abandoned_after_secs=LONGEST_THOUGHT_SECS)


@app.post("/api/chats/{chat}/{turn}/stop", status_code=204)
async def stop(chat: Name, turn: Name) -> None:
    """Stop an answer by closing its stream: the next append of the generation fails, in whichever process it runs."""
    with suppress(StreamClosed, NotFound):
        await stream_of(chat, turn).close({"type": "stopped"})


async def converse(chat: str, turn: str, question: str) -> AsyncIterator[dict[str, str]]:
    """Yield the messages of a turn."""
    yield {"type": "question", "text": question}
    earlier = [other for other in await turns_of(chat) if other < turn]
    said = [message for other in earlier for message in await stream_of(chat, other).read().all()]
    async for text in answer([*said, {"type": "question", "text": question}]):
        yield {"type": "text", "text": text}


def answer(said: list[dict[str, Any]]) -> AsyncIterator[str]:
    """Ask the model for which a key is set, or else the built-in one, which needs no key."""
    if "OPENAI_API_KEY" in os.environ:
        return ask_openai(said)
    return ask_nobody(said)


async def ask_openai(said: list[dict[str, Any]]) -> AsyncIterator[str]:
    from openai import AsyncOpenAI  # noqa: PLC0415 - only where it is used

    roles = {"question": "user", "text": "assistant"}
    messages: Any = [{"role": roles[m["type"]], "content": m["text"]} for m in said if m["type"] in roles]
    async with AsyncOpenAI() as openai:
        model = os.environ.get("OPENAI_MODEL", "gpt-5-mini")
        async for chunk in await openai.chat.completions.create(model=model, messages=messages, stream=True):
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content


async def ask_nobody(said: list[dict[str, Any]]) -> AsyncIterator[str]:
    """A built-in model that always tells the same, slowly."""
    for word in STORY.format(question=said[-1]["text"]).split(" "):
        yield f"{word} "
        await asyncio.sleep(1 / WORDS_PER_SEC)


STORY = (
    "You asked: “{question}”. Let me tell you about a brook instead. It starts as a thread of water under a "
    "stone, so thin that a leaf could stop it. Nobody writes down where it goes, and yet every drop that passes "
    "the mill has passed the bridge before, in the same order, however long you looked away. Close the page in "
    "the middle of this sentence, come back tomorrow, and the words will be here, each of them once. That is all "
    "there is to an everlasting brook: it never waited for you, and you never missed it."
)


@app.get("/durable-streams.js")
async def official_client() -> FileResponse:
    """Serve the official TypeScript client, one ES module, from the folder of `npm ci`."""
    if not OFFICIAL_CLIENT.is_file():
        raise HTTPException(404, "run `npm ci` in the folder of this example")
    return FileResponse(OFFICIAL_CLIENT, media_type="text/javascript")


app.mount("/", StaticFiles(directory=HERE / "static", html=True))
