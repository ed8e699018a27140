"""Requests through httpx2, which no other module on this side imports except `receiver`."""

from collections.abc import AsyncIterator

import httpx2

from everbrook.client._async.wire import AsyncResponse, AsyncWire
from everbrook.client.wire.httpx import LIMITS, timeouts_of, tls_context, translated
from everbrook.client.wire.request import Request, shut


class AsyncHttpxWire(AsyncWire):
    """The connections of an httpx2 client."""

    def __init__(self, client: httpx2.AsyncClient | None = None) -> None:
        self.client = client or httpx2.AsyncClient(limits=LIMITS, verify=tls_context())

    async def send(self, request: Request) -> AsyncResponse:
        with translated(request):
            built = self.client.build_request(
                request.method,
                request.url,
                headers=request.headers,
                content=request.content,
                timeout=timeouts_of(request),
            )
            response = await self.client.send(built, stream=True, follow_redirects=False)
        return _AsyncHttpxResponse(request, response)

    async def aclose(self) -> None:
        await self.client.aclose()


class _AsyncHttpxResponse(AsyncResponse):
    def __init__(self, request: Request, response: httpx2.Response) -> None:
        self.status_code = response.status_code
        self.headers = response.headers
        self._request = request
        self._response = response

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        with translated(self._request):
            async for piece in self._response.aiter_bytes():
                yield piece

    async def aread(self) -> bytes:
        with translated(self._request):
            self.content = await self._response.aread()
        return self.content

    async def aclose(self) -> None:
        await self._response.aclose()

    def interrupt(self) -> None:
        stream = self._response.extensions.get("network_stream")
        connection = None if stream is None else stream.get_extra_info("socket")
        if connection is not None:
            shut(connection)
