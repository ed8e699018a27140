"""Locations: the translation between the names of streams and the URLs of clients.

Inside the server a stream has one name, whatever its URL: the transports map every path to that name before any other
code sees it. So no client can evade a gate, a limit or a log by another spelling.
"""

import re

from everbrook.protocol.errors import BadRequest, quoted
from everbrook.protocol.memo import remember
from everbrook.protocol.path import BUCKETS, STREAM_ROOT, parse_source_path
from everbrook.server.exchange import Request
from everbrook.server.routes import ADMINISTRATION, METRICS, PAGE, PROBES, is_at
from everbrook.settings import ServerSettings

_OWN = (BUCKETS, METRICS, PAGE, ADMINISTRATION, *PROBES)


_HOST = re.compile(rb"(?:[A-Za-z0-9._~-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")


class StreamRoots:
    """The paths below which the streams of the base surface live. `/v1/stream/` is always one of them."""

    def __init__(self, settings: ServerSettings) -> None:
        self._main = settings.stream_root.encode()
        # `/v1/stream/` is checked first, without this list, because most paths begin with it.
        others = {self._main, settings.stream_root_alias.encode()} - {b"", STREAM_ROOT}
        # If two roots match, the longer one applies.
        self._others = tuple(sorted(others, key=len, reverse=True))

    def inward(self, path: bytes) -> bytes:
        """Map the path of a URL to one below `/v1/stream/`, if it is below another root."""
        if path.startswith(STREAM_ROOT):
            return path
        for root in self._others:
            if path.startswith(root) and len(path) > len(root) and not any(is_at(path, own) for own in _OWN):
                return STREAM_ROOT + path[len(root) :]
        return path

    def outward(self, path: bytes) -> bytes:
        """Map a path below `/v1/stream` to the path of a URL for clients."""
        if self._main == STREAM_ROOT or not is_at(path, STREAM_ROOT[:-1]):
            return path
        return self._main[:-1] + path[len(STREAM_ROOT) - 1 :]

    def source_of(self, request: Request) -> bytes | None:
        """Return the name of the stream that a request forks (§4.2)."""
        source = request.headers.get(b"stream-forked-from") if request.method == b"PUT" else None
        return None if source is None else parse_source_path(self.inward(source.removeprefix(request.root)))


@remember(maxsize=1024)
def require_host(host: bytes) -> None:
    """Refuse a `Host` that is neither a name nor an address, with or without a port (RFC 9112 §3.2).

    URLs for clients contain it, so it must have no characters with a meaning in a URL or a page (header injection).
    """
    if not _HOST.fullmatch(host):
        raise BadRequest(f"Host must be a name or an address, with or without a port, got {quoted(host)}")


class Locator:
    """Builds URLs from the public URL of the server, or from the `Host` of the request."""

    def __init__(self, public_url: str, roots: StreamRoots) -> None:
        self._public_url = public_url.encode()
        self._roots = roots

    def public(self, path: bytes) -> bytes | None:
        """Return the public URL of a path, if it is configured."""
        return self._public_url + self._roots.outward(path) if self._public_url else None

    def url(self, request: Request, path: bytes) -> bytes:
        """Return the URL of a path on this server."""
        origin = self._public_url or b"%b://%b%b" % (
            request.scheme,
            request.headers.get(b"host", b"localhost"),
            request.root,
        )
        return origin + self._roots.outward(path)
