"""Locations: the URL by which a client reaches a resource."""

from everbrook.server.exchange import Request
from everbrook.server.roots import StreamRoots


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
