"""The files of the web page: from the package, compressed once, with ETags and a content security policy.

The policy allows only scripts and styles from this server, and requests to it and to the servers that the settings
name.
"""

import gzip
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from msgspec import Struct

from everbrook.protocol.read import matches
from everbrook.server.exchange import Request, Response
from everbrook.server.methods import READING, refuse_method
from everbrook.server.routes import PAGE, nothing_at

INDEX = b"index.html"

_KINDS = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}


class File(Struct, frozen=True):
    """A file of the page, as it is sent."""

    kind: bytes
    body: bytes
    compressed: bytes
    etag: bytes


class Pages:
    """Handles requests for the page."""

    def __init__(self, connect_origins: str = "") -> None:
        """`connect_origins` are the other servers that the page may send requests to."""
        # No Cross-Origin-Opener-Policy: it costs the browser another process, a quarter of the time to the first view.
        # A page that opens this one can only navigate its window: there are no frames and no message handlers.
        self._headers = (
            b"X-Content-Type-Options: nosniff\r\n"
            b"Referrer-Policy: no-referrer\r\n"
            b"Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
            b"connect-src 'self'%b; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
            b"Cache-Control: no-cache\r\nVary: Accept-Encoding\r\n"
        ) % b"".join(b" %b" % origin.strip().encode() for origin in connect_origins.split(",") if origin.strip())

    @cached_property
    def _files(self) -> Mapping[bytes, File]:
        return {name.encode(): _load(found) for name, found in _walk(files(__package__) / "static", "")}

    def answer(self, request: Request) -> Response:
        """Handle a request for the page or one of its files."""
        if request.method not in READING:
            raise refuse_method(request.method, b"GET, HEAD")
        if request.path == PAGE:
            # The page refers to its files relatively, wherever it is mounted, so its URL must end with a slash.
            return Response(308, b"Location: ui/\r\nCache-Control: no-cache\r\n")
        file = self._files.get(request.path[len(PAGE) + 1 :] or INDEX)
        if file is None:
            raise nothing_at(request.path)
        lines = b"%bETag: %b\r\n" % (self._headers, file.etag)
        if matches(request.headers.get(b"if-none-match", b""), file.etag):
            return Response(304, lines)
        lines += b"Content-Type: %b\r\n" % file.kind
        if b"gzip" in request.headers.get(b"accept-encoding", b""):
            return Response(200, lines + b"Content-Encoding: gzip\r\n", file.compressed)
        return Response(200, lines, file.body)


def _walk(folder: Traversable, below: str) -> list[tuple[str, Traversable]]:
    found = []
    for each in folder.iterdir():
        name = f"{below}{each.name}"
        found += _walk(each, f"{name}/") if each.is_dir() else [(name, each)]
    return found


def _load(found: Traversable) -> File:
    body = found.read_bytes()
    suffix = found.name[found.name.rfind(".") :]
    etag = b'"%b"' % sha256(body).hexdigest()[:32].encode()
    return File(_KINDS[suffix], body, gzip.compress(body, 9, mtime=0), etag)
