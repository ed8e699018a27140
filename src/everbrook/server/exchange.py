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
"""What the path of a PUT contains whose body may be taken as it comes. The application is asked about no others."""
FAULT = "the server failed to answer; its log says why"
"""What a client is told of an exception that is a fault of the server."""
JUDGED_BYTES = 16 * 1024
"""How large a body may be that is taken before it is asked who sends it, where that is asked at all."""
_json = msgspec.json.Encoder()


class Peer(Struct, frozen=True, gc=False):
    """The other end of a connection: its address, and the subject of the certificate that it has shown, if any.

    Connections have numbers, so that what one holds can be counted; 0 where they are not known. An address may be
    `told`, by a header, rather than seen.
    """

    address: str = ""
    certificate: str | None = None
    number: int = 0
    told: bool = False


NOBODY = Peer()


class Rights(Protocol):
    """What is known of a request's rights, where there is a policy."""

    def readable(self, request: "Request") -> tuple[bytes, ...]:
        """Give the prefixes, by whole segments, below which a request may read."""

    def may_delete(self, request: "Request", path: bytes) -> bool:
        """Tell whether a request may take away what others have put in a stream."""

    def refusal(self, request: "Request", verb: Verb, path: bytes) -> ProtocolError:
        """Say that a request may not do something."""

    def lasts_secs(self, request: "Request") -> float:
        """Tell how long what was decided holds before it is to be renewed."""

    def renew(self, request: "Request") -> float:
        """Decide again, and tell how long that holds. Zero or less: the request may go on no longer."""


class Request(Struct, gc=False):
    """A whole request. `path` and `query` are as sent; header names are lower-case.

    `root` is the prefix under which another application mounts this one; `path` does not have it. `identity` is set by
    the gate that proves it, `rights` by the one that decides what it may do: then an answer may be `private`, because
    another might not get it. `received` is when it was whole, `parked_at` when its answer began to wait for the disk,
    both by `time.monotonic`; `id` is found when it is first asked for; `operation` is empty where the method alone
    says what is done to a stream. One is `admitted` whose head has passed the gates before its body came.
    """

    method: bytes
    path: bytes
    query: bytes
    headers: dict[bytes, bytes]
    body: bytes
    scheme: bytes = b"http"
    root: bytes = b""
    peer: Peer = NOBODY
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

    `headers` are rendered lines, each with its line end; the transport adds Date, Content-Length and Connection. It
    may be told when change `rests_on` is durable. `length` is that of a body which is not here: one that is streamed,
    or that HEAD did not ask for. A refusal has a `code`.
    """

    status: int
    headers: bytes
    body: bytes = b""
    rests_on: int = 0
    length: int | None = None
    code: str = ""


class Exchange(Protocol):
    """One request's answer, as a transport lets it be given: at once, or piece by piece."""

    @property
    def congested(self) -> bool:
        """Whether the reader does not keep up: write no more until `Deferred.resume` is called."""

    frame: Callable[[bytes], bytes]
    """Turn a piece of a streamed body into what `write` takes. The same piece has the same frame for all."""

    def respond(self, response: Response) -> None:
        """Answer with a whole response. It ends the exchange."""

    def begin(self, response: Response) -> None:
        """Send the head of a streamed response."""

    def write(self, framed: bytes) -> None:
        """Send a framed piece of the body."""

    def finish(self) -> None:
        """End a streamed response as it should end."""

    def abort(self) -> None:
        """End a streamed response so that the client sees that it is not whole."""


class Gate(Protocol):
    """What a request must pass before anything is done for it: one looks at load, one at who asks, one at how often."""

    def admit(self, request: Request) -> None:
        """Let a request pass, or raise why not."""


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
    """Somebody who is told of webhooks."""

    def __call__(self, subscription: str, /, *, accepted: bool, secs: float) -> None:
        """Hear of one that was sent: whether it was taken, and how long that took."""


def may_be_large(headers: dict[bytes, bytes]) -> bool:
    """Tell whether the body of a request is more than is taken of a stranger, or waits to be asked for."""
    length = headers.get(b"content-length")
    if length is None:
        return b"transfer-encoding" in headers
    return b"expect" in headers or (length.isdigit() and int(length) > JUDGED_BYTES)


class Upload(Protocol):
    """A request body that is taken as it comes."""

    max_bytes: int
    """How large the body may be."""

    on_relief: Callable[[], None]
    """Called when the congestion is over. The transport sets it."""

    @property
    def congested(self) -> bool:
        """Whether too much waits to be stored: write no more until `on_relief` is called."""

    def write(self, data: bytes) -> None:
        """Take the next bytes, or raise why no more of them are wanted."""

    def finish(self) -> Reply:
        """Answer the request: its body is whole."""

    def cancel(self) -> None:
        """Let everything go: the body will not become whole, or is refused."""


class Problem(Struct, frozen=True, omit_defaults=True):
    """What went wrong, for a program (`code`) and for a person (`detail`)."""

    title: str
    status: int
    code: str
    detail: str
    request_id: str = ""


def problem_response(error: ProtocolError, common: bytes, rests_on: int = 0, request_id: str = "") -> Response:
    """Render a refusal with the headers it carries."""
    problem = Problem(HTTPStatus(error.status).phrase, error.status, error.code, error.detail, request_id)
    own = b"".join(b"%b: %b\r\n" % header for header in error.headers)
    headers = b"%bContent-Type: application/problem+json\r\nCache-Control: no-store\r\n%b" % (common, own)
    return Response(error.status, headers, _json.encode(problem), rests_on, code=error.code)
