"""Request ids: one word by which an answer, its log records and its trace are found again.

A client's own is taken if it is short, plain and no credential, so that it can stand in a header, a log line and a
document as it is; else one is made.
"""

import re
import secrets

from everbrook.server.exchange import Request
from everbrook.server.observe.redaction import holds_token

HEADER = b"x-request-id"
MAX_CHARACTERS = 128

_SANE = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,%d}" % MAX_CHARACTERS)


def request_id(request: Request) -> str:
    """Give the id of a request; the same one whenever it is asked for."""
    if not request.id:
        request.id = _given(request) or secrets.token_hex(8)
    return request.id


def _given(request: Request) -> str:
    given = request.headers.get(HEADER, b"")
    return given.decode() if _SANE.fullmatch(given) and not holds_token(given) else ""


def id_line(request: Request) -> bytes:
    """Write the header that tells the client under which id its request is known."""
    return b"X-Request-Id: %b\r\n" % request_id(request).encode()
