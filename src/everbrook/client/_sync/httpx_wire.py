# Written by tools/mirror.py from src/everbrook/client/_async/httpx_wire.py: change that file, not this one.
"""Requests through httpx2, which no other module on this side imports except `receiver`."""

from collections.abc import Iterator

import httpx2

from everbrook.client._sync.wire import Response, Wire
from everbrook.client.wire.httpx import LIMITS, timeouts_of, tls_context, translated
from everbrook.client.wire.request import Request, shut


class HttpxWire(Wire):
    """The connections of an httpx2 client."""

    def __init__(self, client: httpx2.Client | None = None) -> None:
        self.client = client or httpx2.Client(limits=LIMITS, verify=tls_context())

    def send(self, request: Request) -> Response:
        with translated(request):
            built = self.client.build_request(
                request.method,
                request.url,
                headers=request.headers,
                content=request.content,
                timeout=timeouts_of(request),
            )
            response = self.client.send(built, stream=True, follow_redirects=False)
        return _HttpxResponse(request, response)

    def close(self) -> None:
        self.client.close()


class _HttpxResponse(Response):
    def __init__(self, request: Request, response: httpx2.Response) -> None:
        self.status_code = response.status_code
        self.headers = response.headers
        self._request = request
        self._response = response

    def iter_bytes(self) -> Iterator[bytes]:
        with translated(self._request):
            yield from self._response.iter_bytes()

    def read(self) -> bytes:
        with translated(self._request):
            self.content = self._response.read()
        return self.content

    def close(self) -> None:
        self._response.close()

    def interrupt(self) -> None:
        stream = self._response.extensions.get("network_stream")
        connection = None if stream is None else stream.get_extra_info("socket")
        if connection is not None:
            shut(connection)
