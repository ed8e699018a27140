"""Requests, responses, and the exchange that joins them. The application does not know which transport called it.

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
"""The path of a PUT whose body may be taken while it arrives contains this. Others are not asked about."""
FAULT = "the server failed to respond; its log has the reason"
"""What a client is told of an exception that is a fault of the server."""
JUDGED_BYTES = 16 * 1024
"""The largest body that is taken before its sender is authenticated, if there is a policy."""
_json = msgspec.json.Encoder()


class Peer(Struct, frozen=True, gc=False):
    """The other end of a connection: its address, and the subject of its certificate, if it has shown one.

    `number` identifies the connection, so that its requests can be counted; it is 0 if the connection is not known. An
    address that was `told` was taken from a header, and may be anybody's.
    """

    address: str = ""
    certificate: str | None = None
    number: int = 0
    told: bool = False


UNKNOWN_PEER = Peer()


class Rights(Protocol):
    """The rights of a request, if there is a policy."""

    def readable(self, request: "Request") -> tuple[bytes, ...]:
        """Give the prefixes, in whole segments, below which a request may read."""

    def may_delete(self, request: "Request", path: bytes) -> bool:
        """Tell whether a request may remove what others have appended."""

    def refusal(self, request: "Request", verb: Verb, path: bytes) -> ProtocolError:
        """Make the refusal of a request that lacks a right."""

    def lasts_secs(self, request: "Request") -> float:
        """Tell for how many seconds the decision is valid."""

    def renew(self, request: "Request") -> float:
        """Decide again, and tell for how many seconds that is valid. Zero or less: the request must end."""


class Request(Struct, gc=False):
    """A whole request. `path` and `query` are as sent; header names are lower-case.

    `root` is the prefix under which another application mounts this one; `path` does not contain it. `identity` is set
    by the gate that authenticates, `rights` by the one that authorizes; a `private` response must not be shared with
    other clients. `received` is when the request was complete, `parked_at` when its response began to wait for the
    disk, both by `time.monotonic`. `id` is found when it is first needed. `operation` is empty if the method alone says
    what is done to a stream. An `admitted` request has passed the gates with its head, before its body arrived.
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


class Response(Struct, gc=False):
    """A whole response, or the head of a streamed one.

    `headers` are rendered lines, each with its line end; the transport adds Date, Content-Length and Connection. The
    response may be sent when the change `rests_on` is durable. `length` is that of a body which is not here, because it
    is streamed or the request is a HEAD. A refusal has a `code`.
    """

    status: int
    headers: bytes
    body: bytes = b""
    rests_on: int = 0
    length: int | None = None
    code: str = ""


class Exchange(Protocol):
    """The way to give the response to one request, at once or piece by piece. Each transport has its own."""

    @property
    def congested(self) -> bool:
        """Whether the client reads too slowly: write no more until `Deferred.resume` is called."""

    frame: Callable[[bytes], bytes]
    """Turns a piece of a streamed body into what `write` takes. Equal pieces have equal frames, so they are shared."""

    def respond(self, response: Response) -> None:
        """Send a whole response. It ends the exchange."""

    def begin(self, response: Response) -> None:
        """Send the head of a streamed response."""

    def write(self, framed: bytes) -> None:
        """Send a framed piece of the body."""

    def finish(self) -> None:
        """End a streamed response properly."""

    def abort(self) -> None:
        """End a streamed response so that the client sees that it is not whole."""


class Gate(Protocol):
    """A check that every request passes before it is handled: of its rate, its identity, its rights."""

    def admit(self, request: Request) -> None:
        """Admit a request, or raise the refusal."""


class Deferred:
    """A response that has to wait for something. What is here fits one that comes as a whole, and soon by itself."""

    brief = True
    """Whether the response comes soon by itself, rather than when somebody else does something."""

    exchange: Exchange | None = None
    """Where the response is given. None before its start, and as soon as nobody waits for it any more."""

    def start(self, exchange: Exchange) -> None:
        """Begin to work on the response. It may be given within this call."""
        raise NotImplementedError

    def resume(self) -> None:
        """Continue after congestion. A whole response never causes any."""

    def cancel(self) -> None:
        """Release what is held: the client is gone, and the exchange must not be used any more."""
        self.exchange = None

    def shut_down(self) -> None:
        """Come to a proper end soon, because the server is stopping. A brief response does so by itself."""

    def respond(self, response: Response) -> None:
        """Give a whole response, if somebody still waits for it."""
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.respond(response)

    def abort(self) -> None:
        """End so that the client sees that the response is not whole."""
        exchange = self.exchange
        self.cancel()
        if exchange is not None:
            exchange.abort()


Reply = Response | Deferred


class OnDelivery(Protocol):
    """A function that is told of every webhook."""

    def __call__(self, subscription: str, /, *, accepted: bool, secs: float) -> None:
        """Note a webhook that was sent: whether its receiver accepted it, and how long that took."""


def may_be_large(headers: dict[bytes, bytes]) -> bool:
    """Tell whether the body of a request may be too large for an unknown sender, or waits for `100 Continue`."""
    length = headers.get(b"content-length")
    if length is None:
        return b"transfer-encoding" in headers
    return b"expect" in headers or (length.isdigit() and int(length) > JUDGED_BYTES)


class Upload(Protocol):
    """A request body that is taken while it arrives."""

    max_bytes: int

    on_relief: Callable[[], None]
    """Called when the congestion is over. The transport sets it."""

    @property
    def congested(self) -> bool:
        """Whether too much waits for the disk: write no more until `on_relief` is called."""

    def write(self, data: bytes) -> None:
        """Take the next bytes, or raise the refusal of the body."""

    def finish(self) -> Reply:
        """Answer the request, because its body is complete."""

    def cancel(self) -> None:
        """Release what is held: the body will not become complete, or is refused."""


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
