"""Whole responses, each sent when what it rests on is durable."""

import asyncio
from time import monotonic

from everbrook.protocol.errors import ProtocolError, Unavailable
from everbrook.server.application import Application
from everbrook.server.asgi.interface import Send
from everbrook.server.exchange import Request, Response


async def settled(application: Application, response: Response, request: Request) -> Response:
    """Wait until what the response rests on is durable."""
    engine = application.engine
    if response.rests_on <= engine.durable_change:
        return response
    request.parked_at = monotonic()
    future: asyncio.Future[ProtocolError | None] = asyncio.get_running_loop().create_future()

    def settle(failure: Unavailable | None) -> None:
        if not future.cancelled():
            future.set_result(failure)

    engine.when_durable(response.rests_on, settle)
    failure = await future
    return application.refuse(failure, request.headers, request) if failure else response


async def send_head(send: Send, response: Response, length: int | None) -> None:
    pairs = [tuple(line.split(b": ", 1)) for line in response.headers.split(b"\r\n") if line]
    headers = [(name.lower(), value) for name, value in pairs]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})


async def send_whole(send: Send, response: Response, *, head_only: bool) -> None:
    length = len(response.body) if response.length is None else response.length
    bodiless = response.status in {204, 304} or (head_only and not response.body and response.length is None)
    await send_head(send, response, None if bodiless else length)
    await send({"type": "http.response.body", "body": b"" if head_only else response.body})
