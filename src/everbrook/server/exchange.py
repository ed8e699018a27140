"""Requests, responses, and the exchange that joins them: the interface between the transports and the application.

Every refusal is a problem document, `application/problem+json` (RFC 9457), with a stable `code`.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

import msgspec
from msgspec import Struct

from everbrook.protocol.errors import ProtocolError
from everbrook.server.auth.scopes import Identity, Verb

STREAMED_PATH = b"/snapshot/"
"""The path of a PUT whose body may be processed while it arrives contains this. Other paths skip the check."""
FAULT = "the server failed to respond; its log has the reason"
"""The message for a client when the server is at fault. It has no details: they might reveal the data of others."""
JUDGED_BYTES = 16 * 1024
"""The largest body that is read before its sender is authenticated, if there is a policy."""
_json = msgspec.json.Encoder()


class Peer(Struct, frozen=True, gc=False):
    """The other end of a connection: its address, and the subject of its client certificate, if it has one.

    `number` identifies the connection, so that its requests can be counted; it is 0 if the connection is not known. An
    address that was `told` comes from a header and is not verified.
    """

    address: str = ""
    certificate: str | None = None
    number: int = 0
    told: bool = False


UNKNOWN_PEER = Peer()


class Rights(Protocol):
    """The rights of a request, if there is a policy."""

    def readable(self, request: "Request") -> tuple[bytes, ...]:
        """Return the prefixes, in whole segments, below which a request may read."""

    def may_delete(self, request: "Request", path: bytes) -> bool:
        """Tell whether a request may remove what others have appended."""

    def refusal(self, request: "Request", verb: Verb, path: bytes) -> ProtocolError:
        """Return the refusal of a request that lacks a right."""

    def lasts_secs(self, request: "Request") -> float:
        """Return for how many seconds the decision is valid."""

    def renew(self, request: "Request") -> float:
        """Decide again. Return for how many seconds that is valid; at zero or less the request must end."""


class Request(Struct, gc=False):
    """A complete request. `path` and `query` are as sent; header names are lower-case.

    `root` is the prefix under which another application mounts this one; `path` does not contain it. The gate that
    authenticates sets `identity`, the gate that authorizes sets `rights`. A `private` response must not be shared with
    other clients. `received` is when the request was complete, `parked_at` when its response began to wait for the
    disk, both by `time.monotonic`. `id` is made when it is first needed. `operation` is empty if the method alone names
    the operation on a stream. An `admitted` request has passed the gates with its head, before its body arrived.
    """

    method: bytes
    path: bytes
    query: bytes
    headers: dict[bytes, bytes]
    body: bytes
    scheme: bytes = b"http"
    root: bytes = b""
    peer: Peer = UNKNOWN_PEER
    received: float = 0.0
    identity: Identity | None = None
    rights: Rights | None = None
    private: bool = False
    parked_at: float = 0.0
    id: str = ""
    operation: str = ""
    admitted: bool = False
    prepared: "Prepared | None" = None


class Response(Struct, gc=False):
    """A complete response, or the head of a streamed one.

    `headers` are rendered lines, each with its line end; the transport adds Date, Content-Length and Connection. The
    response may be sent as soon as the change `rests_on` is durable. `length` is the length of a body that `body` does
    not contain, because it is streamed or the request is a HEAD. A refusal has a `code`.
    """

    status: int
    headers: bytes
    body: bytes = b""
    rests_on: int = 0
    length: int | None = None
    code: str = ""


class Exchange(Protocol):
    """The response side of one request, to send a response at once or in pieces. Each transport implements it."""

    @property
    def congested(self) -> bool:
        """Whether the client reads too slowly: write no more until `Deferred.resume` is called."""

    frame: Callable[[bytes], bytes]
    """Turns a piece of a body into bytes for `write`. Equal pieces have equal frames, so readers share them."""

    def respond(self, response: Response) -> None:
        """Send a complete response, which ends the exchange."""

    def begin(self, response: Response) -> None:
        """Send the head of a streamed response."""

    def write(self, framed: bytes) -> None:
        """Send a framed piece of the body."""

    def finish(self) -> None:
        """End a complete streamed response."""

    def abort(self) -> None:
        """End a streamed response so that the client sees that it is incomplete."""


class Gate(Protocol):
    """A check that every request passes before it is handled: of its rate, its identity, its rights."""

    def admit(self, request: Request) -> None:
        """Admit a request, or raise the refusal."""


class Deferred:
    """A response that has to wait for something. The defaults suit one that is sent in one piece, and soon."""

    brief = True
    """Whether the response comes soon. A live read is not brief: it waits for other clients."""

    exchange: Exchange | None = None
    """Where the response is sent. None before its start, and as soon as it is sent or cancelled."""

    def start(self, exchange: Exchange) -> None:
        """Begin to work on the response. It may be sent within this call."""
        raise NotImplementedError

    def resume(self) -> None:
        """Continue after congestion. A response in one piece never causes any."""

    def cancel(self) -> None:
        """Release all resources, because the client is gone. The exchange must not be used afterwards."""
        self.exchange = None

    def shut_down(self) -> None:
        """End the response in order soon, because the server is stopping. A brief response ends soon anyway."""

    def respond(self, response: Response) -> None:
        """Send a complete response, unless the client is gone."""
        # The exchange is cleared first, so that a response is sent once, whatever sending it causes.
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.respond(response)

    def abort(self) -> None:
        """End the response so that the client sees that it is incomplete."""
        exchange = self.exchange
        self.cancel()
        if exchange is not None:
            exchange.abort()


Reply = Response | Deferred

Prepared = Callable[[Request, bytes], Reply]
"""Handles the requests with one head: what depends on the head alone was done when the head was learned.

It is given the lines that the response begins with, as every handler is.
"""


class OnDelivery(Protocol):
    """A function that records every webhook."""

    def __call__(self, subscription: str, /, *, accepted: bool, secs: float) -> None:
        """Record a webhook that was sent: whether its receiver accepted it, and how long that took."""


def may_be_large(headers: dict[bytes, bytes]) -> bool:
    """Tell whether a body may exceed what an unauthenticated client may send, or waits for `100 Continue`."""
    length = headers.get(b"content-length")
    # A chunked body has no declared length, so it may be large.
    if length is None:
        return b"transfer-encoding" in headers
    return b"expect" in headers or (length.isdigit() and int(length) > JUDGED_BYTES)


class Upload(Protocol):
    """A request body that is processed while it arrives."""

    max_bytes: int

    on_relief: Callable[[], None]
    """The upload calls this when its congestion is over. The transport sets it."""

    @property
    def congested(self) -> bool:
        """Whether too much waits for the disk: write no more until `on_relief` is called."""

    def write(self, data: bytes) -> None:
        """Process the next bytes, or raise the refusal of the body."""

    def finish(self) -> Reply:
        """Handle the request, because its body is complete."""

    def cancel(self) -> None:
        """Release all resources, because the body is refused or its rest will not arrive."""


class Problem(Struct, frozen=True, omit_defaults=True):
    """A problem document: `code` is for programs, `detail` for people."""

    title: str
    status: int
    code: str
    detail: str
    request_id: str = ""


def problem_response(error: ProtocolError, common: bytes, rests_on: int = 0, request_id: str = "") -> Response:
    """Render a refusal, with its headers."""
    problem = Problem(HTTPStatus(error.status).phrase, error.status, error.code, error.detail, request_id)
    own = b"".join(b"%b: %b\r\n" % header for header in error.headers)
    headers = b"%bContent-Type: application/problem+json\r\nCache-Control: no-store\r\n%b" % (common, own)
    return Response(error.status, headers, _json.encode(problem), rests_on, code=error.code)
