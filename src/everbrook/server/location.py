"""Locations: the URL by which a client reaches a resource."""

import re

from everbrook.protocol.errors import BadRequest, quoted
from everbrook.protocol.memory import remember
from everbrook.server.exchange import Request
from everbrook.server.roots import StreamRoots

_HOST = re.compile(rb"(?:[A-Za-z0-9._~-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")


@remember(maxsize=1024)
def require_host(host: bytes) -> None:
    """Refuse what is neither the name nor the address of a host, with a port or without (RFC 9112 §3.2).

    URLs that are told are built of it, so nothing may stand there that a URL or a page reads otherwise.
    """
    if not _HOST.fullmatch(host):
        raise BadRequest(f"Host must be a name or an address, and perhaps a port, got {quoted(host)}")


class Locator:
    """Builds URLs from the public URL of the server, or from what the client called it."""

    def __init__(self, public_url: str, roots: StreamRoots) -> None:
        self._public_url = public_url.encode()
        self._roots = roots

    def public(self, path: bytes) -> bytes | None:
        """Give the URL of a path on this server, if the server knows its public URL."""
        return self._public_url + self._roots.outward(path) if self._public_url else None

    def url(self, request: Request, path: bytes) -> bytes:
        """Give the URL of a path on this server."""
        origin = self._public_url or b"%b://%b%b" % (
            request.scheme,
            request.headers.get(b"host", b"localhost"),
            request.root,
        )
        return origin + self._roots.outward(path)
