"""The body of a bootstrap: a multipart entity, each part of which is one message (002 §3.2, RFC 2046 §5.1)."""

from array import array

from everbrook.protocol.json_mode import SEPARATOR
from everbrook.protocol.state import Identity


def content_type(boundary: bytes) -> bytes:
    """Return the content type of the entity."""
    return b"multipart/mixed; boundary=%b" % boundary


def part_head(boundary: bytes, content_type: bytes) -> bytes:
    """Return the beginning of the first part; its body follows."""
    return b"--%b\r\nContent-Type: %b\r\n\r\n" % (boundary, content_type)


def next_part_head(boundary: bytes, content_type: bytes) -> bytes:
    """Return the end of a part and the beginning of the next one."""
    return b"\r\n" + part_head(boundary, content_type)


def parts(identity: Identity, head: bytes, first: int, ends: "array[int]", stored: bytes) -> bytes:
    """Return a run of stored messages as parts, each after `head`."""
    trailer = len(SEPARATOR) if identity.json else 0
    pieces: list[bytes] = []
    start = 0
    for end in ends:
        pieces += (head, stored[start : end - first - trailer])
        start = end - first
    return b"".join(pieces)


def closing(boundary: bytes) -> bytes:
    """Return the end of the last part and of the entity."""
    return b"\r\n--%b--\r\n" % boundary
