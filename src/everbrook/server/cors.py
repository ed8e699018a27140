"""Cross-origin requests: the headers of every response, and the origins that may make changes (§12.7).

CORS keeps a page from reading a response, not from sending a request. So a change is refused if it comes from a page
whose origin is not in `http.cors_origins`. If that is `*`, every page may make changes, with one exception: on a server
without a policy that is reached directly on the loopback only pages of this machine may. Otherwise every web site that
its user visits could change the streams.
"""

from urllib.parse import urlsplit

from everbrook.protocol.errors import Forbidden, quoted
from everbrook.server.auth.proxies import is_forwarded
from everbrook.server.exchange import Request, Response
from everbrook.settings import parse_origins
from everbrook.settings.loopback import LOCALHOST, host_of, is_loopback

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

# The bodies are bytes of clients: a browser must neither guess a type nor run scripts in them.
EXTENSIONS_LINE = b"Stream-Extensions: %b\r\n" % EXTENSIONS

_SAFETY = (
    b"X-Content-Type-Options: nosniff\r\n"
    b"Cross-Origin-Resource-Policy: cross-origin\r\n"
    b"Content-Security-Policy: sandbox\r\n"
) + EXTENSIONS_LINE


ORIGIN = b"origin"
_READING = frozenset({b"GET", b"HEAD", b"OPTIONS"})


class Cors:
    """The headers of responses, by the origin of the request."""

    def __init__(self, origins: str) -> None:
        """`origins` is the setting: `*`, or origins separated by commas."""
        self._by_origin = {origin.encode(): _block(origin.encode()) for origin in parse_origins(origins)}
        self.for_any = self._by_origin.get(b"*")
        self._none = _SAFETY + b"Vary: Origin\r\n"

    def headers(self, request: Request) -> bytes:
        """Return the header lines that every response to this request begins with."""
        if self.for_any is not None:
            return self.for_any
        return self._by_origin.get(request.headers.get(b"origin", b""), self._none)

    def preflight(self, request: Request) -> Response:
        """Respond to an OPTIONS request."""
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


class Origins:
    """Refuses changes from web pages whose origin may not make them (CSRF protection)."""

    def __init__(self, origins: str, public_url: str, *, guarded: bool) -> None:
        """The settings `http.cors_origins` and `server.public_url`. `guarded` says whether there is a policy."""
        self._listed = frozenset(origin.encode() for origin in parse_origins(origins))
        self._own = urlsplit(public_url).netloc.encode()
        self._all = b"*" in self._listed
        self._guarded = guarded

    def admit(self, request: Request) -> None:
        """Refuse a change by a page that may not make it. Only requests of pages have an `Origin` header."""
        origin = request.headers.get(ORIGIN)
        # Reads need no check: without the headers of CORS, browsers keep the response from the page.
        if origin is None or request.method in _READING or self._may_change(origin, request):
            return
        raise Forbidden(
            f"pages of {quoted(origin)} may not change anything on this server: http.cors_origins lists those that may"
        )

    def _may_change(self, origin: bytes, request: Request) -> bool:
        place = origin.partition(b"://")[2]
        # A page of this server has the host of the request, or that of the public URL, as its origin.
        if origin in self._listed or (place and place in {request.headers.get(b"host"), self._own}):
            return True
        if not self._all:
            return False
        return self._guarded or not _is_direct(request) or _is_of_this_machine(place.decode("latin-1"))


def _is_direct(request: Request) -> bool:
    """Tell whether a request comes from this machine, and no proxy has forwarded it."""
    return is_loopback(request.peer.address) and not is_forwarded(request)


def _is_of_this_machine(place: str) -> bool:
    """Tell whether an origin is this machine. Browsers resolve names such as `a.localhost` to the loopback."""
    host = host_of(place)
    return is_loopback(host) or host.lower().endswith(f".{LOCALHOST}")
