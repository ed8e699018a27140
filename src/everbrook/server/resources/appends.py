"""Appends: from a request to the command, and from the outcome to the response (§5.2, §5.3).

`PreparedAppend` handles appends whose head is known: of the head, only the values that vary are parsed again.
"""

from collections.abc import Mapping

from everbrook.engine.engine import Engine
from everbrook.protocol.append import parse_expected_tail, parse_stream_seq
from everbrook.protocol.commands import Append, Appended, Closed, Duplicate
from everbrook.protocol.errors import InvalidHeader
from everbrook.protocol.lifetime import format_incarnation
from everbrook.protocol.path import REGISTRY, parse_stream_path
from everbrook.protocol.producer import parse_claim, parse_position, parse_resumed
from everbrook.protocol.state import Identity
from everbrook.server.cors import EXTENSIONS_LINE
from everbrook.server.exchange import Request, Response
from everbrook.server.methods import require_unpacked
from everbrook.server.resources.headers import CLOSED, NO_STORE_LINE, producer_lines
from everbrook.server.resources.registry import require_writable

_PRODUCER = {b"producer-id", b"producer-epoch", b"producer-seq", b"producer-position", b"producer-resumes-from"}
_PARSED = frozenset(_PRODUCER | {b"stream-seq", b"if-match"})
"""The headers of a prepared append that are parsed for each request."""
_IN_FULL = frozenset({b"stream-closed", b"stream-incarnation", b"content-encoding"})
"""An append with one of these headers can't be prepared."""


def writable_name(request: Request) -> bytes:
    """Return the name of the stream that a request changes. Refuse the registry, and a body with a content coding."""
    name = parse_stream_path(request.path)
    if name == REGISTRY:
        require_writable(name)
    if b"content-encoding" in request.headers and request.body:
        require_unpacked(request.headers)
    return name


def closes(headers: Mapping[bytes, bytes]) -> bool:
    """Tell whether `Stream-Closed` is `true`, in upper or lower case. Any other value is ignored (§4.1)."""
    value = headers.get(b"stream-closed")
    return value is not None and value.lower() == b"true"


def parse_append(name: bytes, now: int, body: bytes, headers: Mapping[bytes, bytes]) -> Append:
    """Parse the headers of an append."""
    claim = parse_claim(headers.get(b"producer-id"), headers.get(b"producer-epoch"), headers.get(b"producer-seq"))
    position = resumes_from = None
    if b"producer-position" in headers or b"producer-resumes-from" in headers:
        if claim is None:
            raise InvalidHeader(
                "Producer-Position and Producer-Resumes-From need Producer-Id, Producer-Epoch and Producer-Seq"
            )
        position = parse_position(headers.get(b"producer-position"))
        resumes_from = parse_resumed(headers.get(b"producer-resumes-from"))
    return Append(
        name,
        now,
        headers.get(b"content-type") or None,
        body,
        closes(headers),
        claim,
        parse_stream_seq(headers.get(b"stream-seq")),
        parse_expected_tail(headers.get(b"if-match")),
        None,
        position,
        resumes_from,
    )


def append_lines(common: bytes, identity: Identity, epoch: int) -> bytes:
    """Write the lines that are the same for all responses to appends to one stream.

    Responses to appends do not list the extensions: a writer knows them from the response to its PUT, HEAD or OPTIONS.
    """
    lines = common.replace(EXTENSIONS_LINE, b"", 1)
    return b"%b%bStream-Incarnation: %b\r\n" % (lines, NO_STORE_LINE, format_incarnation(identity, epoch))


def append_response(outcome: Appended | Closed | Duplicate, lines: bytes, rests_on: int) -> Response:
    """Render the outcome of an append."""
    head, producer = outcome.head, outcome.producer
    lines = b"%bStream-Next-Offset: %016d\r\n" % (lines, head.tail)
    if head.closed:
        lines += CLOSED
    if producer is None:
        return Response(204, lines, b"", rests_on)
    return Response(200 if isinstance(outcome, Appended) else 204, lines + producer_lines(producer), b"", rests_on)


def can_be_prepared(headers: Mapping[bytes, bytes]) -> bool:
    """Tell whether `PreparedAppend` handles the appends with these headers."""
    return _IN_FULL.isdisjoint(headers)


class PreparedAppend:
    """Handles the appends that have one head. Bodies are smaller than those that are split in slices."""

    __slots__ = ("_common", "_content_type", "_engine", "_headers_vary", "_identity", "_lines", "_name")

    def __init__(self, engine: Engine, name: bytes, headers: Mapping[bytes, bytes]) -> None:
        self._engine = engine
        self._name = name
        self._content_type = headers.get(b"content-type") or None
        self._headers_vary = not _PARSED.isdisjoint(headers)
        self._common = b""
        self._identity: Identity | None = None
        self._lines = b""

    def __call__(self, request: Request, common: bytes) -> Response:
        engine, now = self._engine, self._engine.clock.now()
        if self._headers_vary:
            outcome = engine.append(parse_append(self._name, now, request.body, request.headers))
        else:
            outcome = engine.append(Append(self._name, now, self._content_type, request.body))
        identity = outcome.head.identity
        if identity is not self._identity or common is not self._common:
            self._identity, self._common = identity, common
            self._lines = append_lines(common, identity, engine.epoch)
        return append_response(outcome, self._lines, engine.last_change)
