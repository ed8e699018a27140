"""Request targets: what a request line asks for, as path and query."""

from everbrook.protocol.errors import BadRequest, quoted
from everbrook.protocol.memory import remember


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
