"""The two sides of the client, called in one way: a loop does the waiting, or a thread."""

# ruff: noqa: ANN401 - what is called and what it gives is either side's

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Protocol

import httpx2
from msgspec import Struct

from everbrook import AsyncClient, Client, Page


class Exchange(Struct):
    """A request as it went out, and the status that came back."""

    request: httpx2.Request
    status: int | None = None


class Wire:
    """What went over the wire for the command under way."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def asked(self, request: httpx2.Request) -> None:
        self.exchanges.append(Exchange(request))

    def answered(self, response: httpx2.Response) -> None:
        for exchange in self.exchanges:
            if exchange.request is response.request:
                exchange.status = response.status_code

    def clear(self) -> None:
        self.exchanges = []


class Face(Protocol):
    """One side of the client."""

    name: str
    wire: Wire

    def client(self, url: str, **options: Any) -> Any: ...
    async def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...
    def pages(self, reader: Any) -> AsyncGenerator[Page]: ...
    async def close(self) -> None: ...


class Looping:
    """The client on asyncio."""

    name = "everbrook-async"

    def __init__(self) -> None:
        self.wire = Wire()
        self._http = httpx2.AsyncClient(event_hooks={"request": [self._asked], "response": [self._answered]})

    def client(self, url: str, **options: Any) -> AsyncClient:
        return AsyncClient(url, http=self._http, **options)

    async def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    async def pages(self, reader: Any) -> AsyncGenerator[Page]:
        async with aclosing(reader.pages()) as pages:
            async for page in pages:
                yield page

    async def close(self) -> None:
        await self._http.aclose()

    async def _asked(self, request: httpx2.Request) -> None:
        self.wire.asked(request)

    async def _answered(self, response: httpx2.Response) -> None:
        self.wire.answered(response)


class Blocking:
    """The client without an event loop, each call in a thread."""

    name = "everbrook-sync"

    def __init__(self) -> None:
        self.wire = Wire()
        self._http = httpx2.Client(event_hooks={"request": [self.wire.asked], "response": [self.wire.answered]})

    def client(self, url: str, **options: Any) -> Client:
        return Client(url, http=self._http, **options)

    async def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(function, *args, **kwargs)

    async def pages(self, reader: Any) -> AsyncGenerator[Page]:
        """The pages that a thread reads. Whoever has enough of them closes the reader, which ends the thread."""
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[Page | BaseException | None]()

        def read() -> None:
            end: BaseException | None = None
            try:
                for page in reader.pages():
                    loop.call_soon_threadsafe(queue.put_nowait, page)
            except BaseException as error:  # noqa: BLE001 - it is raised to whoever takes the pages
                end = error
            loop.call_soon_threadsafe(queue.put_nowait, end)

        threading.Thread(target=read, daemon=True).start()
        while isinstance(page := await queue.get(), Page):
            yield page
        if page is not None:
            raise page

    async def close(self) -> None:
        self._http.close()
