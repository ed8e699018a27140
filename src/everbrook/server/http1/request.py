"""Requests as HTTP/1.x sends them."""

from everbrook.server.exchange import Request
from everbrook.server.http1.incoming import Incoming

KEPT = b""
KEPT_1_0 = b"Connection: keep-alive\r\n"


class Http1Request(Request, kw_only=True, gc=False):
    """A request with what HTTP/1.x says about its connection.

    `connection` is the line that tells the client that the connection goes on, or None if it must end. HTTP/1.0 knows
    no chunks, so there the end of a streamed answer is the end of the connection.
    """

    connection: bytes | None
    chunkable: bool


class StreamedRequest(Http1Request, kw_only=True, gc=True):
    """A request that is handed on before its body is whole."""

    incoming: Incoming
