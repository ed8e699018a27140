"""From the scope of a request to its head."""

from urllib.parse import quote

from everbrook.server.asgi.interface import Scope
from everbrook.server.auth.proxies import NAMING
from everbrook.server.exchange import NOBODY, Peer, Request

# What a path holds unescaped (RFC 3986 §3.3).
PATH_CHARACTERS = "/~!$&'()*+,;=:@"


def read_head(scope: Scope) -> Request:
    """Give the request without its body."""
    headers: dict[bytes, bytes] = {}
    for name, sent in scope["headers"]:
        value = sent.strip(b" \t")
        headers[name] = b"%b, %b" % (headers[name], value) if name in headers else value
    root = quote(scope.get("root_path", ""), safe=PATH_CHARACTERS).encode()
    path = scope.get("raw_path") or quote(scope["path"], safe=PATH_CHARACTERS).encode()
    return Request(
        method=scope["method"].encode(),
        path=path.removeprefix(root),
        query=scope["query_string"],
        headers=headers,
        body=b"",
        scheme=scope.get("scheme", "http").encode(),
        root=root,
        peer=_read_peer(scope, headers),
    )


def _read_peer(scope: Scope, headers: dict[bytes, bytes]) -> Peer:
    """Give who is at the other end.

    Some servers put the address that a header names in the place of the connection's (uvicorn does so by default), so
    one that such a header has may be anybody's word.
    """
    if not scope.get("client"):
        return NOBODY
    address: str = scope["client"][0]
    told = any(address.encode() in headers[name] for name in NAMING if name in headers)
    return Peer(address, told=told)
