"""Origins: which web pages may change something. A browser sends what a page asks for wherever its user may reach.

The rule: CORS keeps a page from reading an answer, not from sending a request, so a page whose origin is not one of
`http.cors_origins` is refused what changes something. Where that is `*`, all may, but for one case: a server without a
policy that is reached directly on the loopback is there for its machine, not for every site that somebody visits on it.
"""

from urllib.parse import urlsplit

from everbrook.protocol.errors import Forbidden, quoted
from everbrook.server.auth.proxies import is_forwarded
from everbrook.server.exchange import Request
from everbrook.settings import parse_origins
from everbrook.settings.loopback import LOCALHOST, host_of, is_loopback

ORIGIN = b"origin"

_READING = frozenset({b"GET", b"HEAD", b"OPTIONS"})


class Origins:
    """Looks at the origin of a page that wants to change something."""

    def __init__(self, origins: str, public_url: str, *, guarded: bool) -> None:
        """Take `http.cors_origins`, `server.public_url`, and whether there is a policy."""
        self._listed = frozenset(origin.encode() for origin in parse_origins(origins))
        self._own = urlsplit(public_url).netloc.encode()
        self._all = b"*" in self._listed
        self._guarded = guarded

    def admit(self, request: Request) -> None:
        """Refuse what a page may not do. What is no page's has no origin."""
        origin = request.headers.get(ORIGIN)
        if origin is None or request.method in _READING or self._may_change(origin, request):
            return
        raise Forbidden(
            f"pages of {quoted(origin)} may not change anything on this server: http.cors_origins says which may"
        )

    def _may_change(self, origin: bytes, request: Request) -> bool:
        place = origin.partition(b"://")[2]
        if origin in self._listed or (place and place in {request.headers.get(b"host"), self._own}):
            return True
        if not self._all:
            return False
        return self._guarded or not _is_direct(request) or _is_of_this_machine(place.decode("latin-1"))


def _is_direct(request: Request) -> bool:
    """Tell whether a request comes from this machine, without a proxy that would say so."""
    return is_loopback(request.peer.address) and not is_forwarded(request)


def _is_of_this_machine(place: str) -> bool:
    """Tell whether the pages of a place come from this machine. Browsers ask nobody where `a.localhost` is."""
    host = host_of(place)
    return is_loopback(host) or host.lower().endswith(f".{LOCALHOST}")
