"""Bodies as they come: bounded, and passed on no faster than they are taken."""

import asyncio
from typing import Self

from everbrook.protocol.errors import PayloadTooLarge
from everbrook.server.asgi.interface import Receive
from everbrook.server.exchange import Reply, Request, Upload
from everbrook.server.vigil import require_rights


class BodyReader:
    """Gives the pieces of a body as they come, `size` bytes so far. It is `whole` unless the client went away in the
    middle.
    """

    def __init__(self, request: Request, receive: Receive, max_bytes: int) -> None:
        """Refuse a body that says itself that it is too large."""
        self._receive = receive
        self._max_bytes = max_bytes
        self.size = 0
        self.whole = False
        length = request.headers.get(b"content-length", b"")
        self._check(int(length) if length.isdigit() else 0)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        message = {} if self.whole else await self._receive()
        if self.whole or message["type"] == "http.disconnect":
            raise StopAsyncIteration
        piece: bytes = message.get("body", b"")
        self.size += len(piece)
        self._check(self.size)
        self.whole = not message.get("more_body", False)
        return piece

    def _check(self, size: int) -> None:
        if size > self._max_bytes:
            raise PayloadTooLarge(f"the body holds at most {self._max_bytes} bytes")


async def stream_body(request: Request, receive: Receive, upload: Upload) -> Reply | None:
    """Pass the body on as it comes, no faster than it is taken."""
    relieved = asyncio.Event()
    upload.on_relief = relieved.set
    try:
        body = BodyReader(request, receive, upload.max_bytes)
        async for piece in body:
            if piece:
                upload.write(piece)
            if upload.congested:
                relieved.clear()
                await relieved.wait()
        if body.whole:
            require_rights(request)
    except BaseException:
        upload.cancel()
        raise
    if body.whole:
        return upload.finish()
    upload.cancel()
    return None
