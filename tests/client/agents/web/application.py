"""An application with a fake model, under uvicorn. The streams are mounted in it, or elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Event
from typing import Any

from fastapi import FastAPI, Request, Response

from everbrook import AsyncClient
from everbrook.client.generation import drain
from everbrook.client.recipes.ui_messages import chunks, read_text
from everbrook.client.responses import DurableResponse, UIMessageResponse
from everbrook.server.asgi import create_app
from tests.kit.asgi_mount import Mounted
from tests.kit.server_thread import configured

WORDS = [f"word {number} " for number in range(20)]


class Model:
    """A model that says word after word, waits behind one of them if told to, and counts how often it was asked."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.asked = 0
        self.stopped = False
        self.pause_secs = 0.01
        self.fails_after = len(WORDS) + 1
        self.waits_after = 0
        self.go_on = Event()

    async def answer(self) -> AsyncIterator[str]:
        self.asked += 1
        try:
            for number, word in enumerate(WORDS):
                if number == self.fails_after:
                    raise LookupError("the model lost its secret thread")
                yield word
                await self._pause(number + 1)
        except GeneratorExit:
            self.stopped = True
            raise

    async def _pause(self, said: int) -> None:
        while said == self.waits_after and not self.go_on.is_set():  # noqa: ASYNC110 - set in another thread
            await asyncio.sleep(0.01)
        await asyncio.sleep(self.pause_secs)


def application(model: Model, streams: str | None) -> tuple[FastAPI, Any]:
    """An application, with streams mounted in it unless they are at a URL."""
    mounted = create_app(configured())
    held: dict[str, AsyncClient] = {}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with mounted.lifespan():
            yield
            await drain(0.1)
            for client in held.values():
                await client.close()

    def client(request: Request) -> AsyncClient:
        url = streams or f"{request.base_url}streams/v1/stream"
        return held.setdefault(url, AsyncClient(url))

    app = FastAPI(lifespan=lifespan)
    app.mount("/streams", mounted)

    @app.post("/chat/{name}")
    async def ask(name: str, request: Request) -> Response:
        return DurableResponse(model.answer, client(request).stream(f"answers/{name}"))

    @app.get("/chat/{name}")
    async def resume(name: str, request: Request) -> Response:
        return DurableResponse.resume(client(request).stream(f"answers/{name}"), request)

    @app.get("/impatient/{name}")
    async def resume_impatiently(name: str, request: Request) -> Response:
        stream = client(request).stream(f"answers/{name}")
        return DurableResponse.resume(stream, request, abandoned_after_secs=0.2)

    @app.post("/ui/{name}")
    async def ask_ui(name: str, request: Request) -> Response:
        answer = chunks(model.answer, read_text, message_id="m1")
        return UIMessageResponse(answer, client(request).stream(f"ui/{name}"))

    @app.get("/ui/{name}/stream")
    async def resume_ui(name: str, request: Request) -> Response:
        return UIMessageResponse.resume(client(request).stream(f"ui/{name}"), request)

    return app, mounted


@contextmanager
def serving_application(model: Model, streams: str | None) -> Iterator[str]:
    """The URL of the application, for as long as the context lasts."""
    app, mounted = application(model, streams)
    with Mounted(mounted, app) as running:
        yield running.origin
