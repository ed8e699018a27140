"""The headers that every response carries: safety for browsers, and who may read across origins (§12.7)."""

from everbrook.server.exchange import Request, Response
from everbrook.settings import parse_origins

EXTENSIONS = (
    b"buckets, snapshots, bootstrap, retention, listing, bounded-reads, frames, if-match, registry, "
    b"producer-position, incarnation"
)
EXPOSED = (
    b"Content-Digest",
    b"ETag",
    b"Location",
    b"Producer-Epoch",
    b"Producer-Expected-Seq",
    b"Producer-Position",
    b"Producer-Received-Seq",
    b"Producer-Seq",
    b"Retry-After",
    b"Stream-Closed",
    b"Stream-Cursor",
    b"Stream-Earliest-Offset",
    b"Stream-Expires-At",
    b"Stream-Extensions",
    b"Stream-Incarnation",
    b"Stream-Next-Offset",
    b"Stream-Offset",
    b"Stream-Retention",
    b"Stream-SSE-Data-Encoding",
    b"Stream-Snapshot-Offset",
    b"Stream-TTL",
    b"Stream-Up-To-Date",
    b"X-Request-Id",
)
ALLOWED = (
    b"Authorization",
    b"Content-Digest",
    b"Content-Type",
    b"If-Match",
    b"If-None-Match",
    b"Last-Event-ID",
    b"Producer-Epoch",
    b"Producer-Id",
    b"Producer-Position",
    b"Producer-Resumes-From",
    b"Producer-Seq",
    b"Stream-Closed",
    b"Stream-Expires-At",
    b"Stream-Fork-Offset",
    b"Stream-Fork-Sub-Offset",
    b"Stream-Forked-From",
    b"Stream-Incarnation",
    b"Stream-Retention",
    b"Stream-Seq",
    b"Stream-Snapshot-History",
    b"Stream-Created-At-Ms",
    b"Stream-TTL",
    b"Traceparent",
    b"Tracestate",
    b"X-Request-Id",
)
METHODS = b"GET, HEAD, OPTIONS, PUT, POST, DELETE"
MAX_AGE_SECS = 86400

_SAFETY = (
    b"X-Content-Type-Options: nosniff\r\n"
    b"Cross-Origin-Resource-Policy: cross-origin\r\n"
    b"Content-Security-Policy: sandbox\r\n"
    b"Stream-Extensions: %b\r\n"
) % EXTENSIONS


class Cors:
    """Decides which headers a response to a given origin has."""

    def __init__(self, origins: str) -> None:
        """Take the setting: `*`, or origins separated by commas."""
        self._by_origin = {origin.encode(): _block(origin.encode()) for origin in parse_origins(origins)}
        self.for_any = self._by_origin.get(b"*")
        self._none = _SAFETY + b"Vary: Origin\r\n"

    def headers(self, request: Request) -> bytes:
        """Give the lines that every response to this request begins with."""
        if self.for_any is not None:
            return self.for_any
        return self._by_origin.get(request.headers.get(b"origin", b""), self._none)

    def preflight(self, request: Request) -> Response:
        """Answer an OPTIONS request."""
        headers = (
            b"%bAllow: %b\r\n"
            b"Access-Control-Allow-Methods: %b\r\n"
            b"Access-Control-Allow-Headers: %b\r\n"
            b"Access-Control-Max-Age: %d\r\n"
        ) % (self.headers(request), METHODS, METHODS, b", ".join(ALLOWED), MAX_AGE_SECS)
        return Response(204, headers)


def _block(origin: bytes) -> bytes:
    vary = b"" if origin == b"*" else b"Vary: Origin\r\n"
    exposed = b", ".join(EXPOSED)
    return b"%bAccess-Control-Allow-Origin: %b\r\nAccess-Control-Expose-Headers: %b\r\n%b" % (
        _SAFETY,
        origin,
        exposed,
        vary,
    )
