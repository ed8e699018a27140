"""Locations: the URL by which a client reaches a resource."""

from everbrook.server.exchange import Request


class Locator:
    """Builds URLs from the public URL of the server, or from what the client called it."""

    def __init__(self, public_url: str) -> None:
        self.public_url = public_url
        self._public_url = public_url.encode()

    def url(self, request: Request, path: bytes) -> bytes:
        """Give the URL of a path on this server."""
        origin = self._public_url or b"%b://%b%b" % (
            request.scheme,
            request.headers.get(b"host", b"localhost"),
            request.root,
        )
        return origin + path
