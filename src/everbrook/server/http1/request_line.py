"""The request line: its target as path and query, and methods that `httptools` does not know."""

import re

from everbrook.protocol.errors import BadRequest, MethodNotImplemented, quoted
from everbrook.protocol.memory import remember
from everbrook.server.methods import refuse_method

_REQUEST_LINE = re.compile(rb"(?:\A|\n)([!#$%&'*+.^_`|~0-9A-Za-z-]+) [!-~]+ HTTP/1\.[01]\r\n")


@remember(maxsize=4096)
def split_target(target: bytes) -> tuple[bytes, bytes]:
    """Split a request target into path and query."""
    path, _, query = origin_form(target).partition(b"?")
    return path, query


def origin_form(target: bytes) -> bytes:
    """Reduce a request target to path and query (RFC 9112 §3.2)."""
    if b"#" in target:
        raise BadRequest(f"a request target has no fragment, got {quoted(target)}")
    if target.startswith(b"/"):
        return target
    scheme, separator, rest = target.partition(b"://")
    if separator and scheme.lower() in {b"http", b"https"}:
        authority, slash, path = rest.partition(b"/")
        if not slash or b"?" in authority:
            raise BadRequest(f"an absolute request target must have a path, got {quoted(target)}")
        return slash + path
    return target


def unknown_method(data: bytes) -> MethodNotImplemented | None:
    """Find the method that is none of HTTP's in bytes that `httptools` refused for it.

    `httptools` does not tell where it stopped. A request line of which only a part has arrived is not looked at.
    """
    methods = (refuse_method(method, b"") for method in _REQUEST_LINE.findall(data))
    return next((error for error in methods if isinstance(error, MethodNotImplemented)), None)
