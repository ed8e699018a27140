"""Who gets a backup.

Whoever may read one may read everything, secrets included. So it takes the right to administer the whole server, or,
where the server asks nobody who they are, a program on the same machine.
"""

from everbrook.protocol.errors import Forbidden
from everbrook.server.auth.origins import ORIGIN
from everbrook.server.auth.proxies import is_forwarded
from everbrook.server.exchange import Request
from everbrook.settings.loopback import host_of, is_loopback


def require_administrator(request: Request) -> None:
    """Refuse who is not known, unless it is a program on this machine. Who is known has passed the gates."""
    if request.identity is not None:
        return
    if not is_loopback(request.peer.address) or not _is_direct(request):
        raise Forbidden(
            "backups are given to programs on the same machine, or to who may administer the server: "
            "no way to prove that is configured, see auth in the settings"
        )


def _is_direct(request: Request) -> bool:
    """Tell whether nothing speaks of a proxy or of a page. A proxy that forwards without a word of it still names what
    it was asked for, or, as nginx does of itself, closes after each request.
    """
    headers = request.headers
    if is_forwarded(request) or ORIGIN in headers or headers.get(b"connection", b"").strip().lower() == b"close":
        return False
    return is_loopback(host_of(headers.get(b"host", b"").decode("latin-1")))
