"""The access log, and the redaction of requests for all logs.

The access log has a record for each response that the settings select, by the logger `everbrook.access`. No header is
logged, and of a query only the parameters that are known to be harmless (an allow list): a list of secret parameters
would miss a new one, or one that is percent-encoded.
"""

import logging
import re
import secrets
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from everbrook.server.exchange import Request, Response
from everbrook.server.methods import LIVE, operation_of
from everbrook.settings import RequestLog

logger = logging.getLogger("everbrook.access")

FAILED = 500
REFUSED = 400


REQUEST_ID = b"x-request-id"
MAX_ID_CHARACTERS = 128
_SANE = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,%d}" % MAX_ID_CHARACTERS)
PLAIN_PARAMETERS = frozenset(
    b"offset live cursor until at last skip max_bytes format limit prefix after changed_since expires stream".split()
)
"""Parameters of the protocol whose values are no secrets."""
NAMES = frozenset(b"prefix after stream".split())
MAX_PLAIN_BYTES = 40
"""A longer value that is no name can't be a value of the protocol: it may be a secret in the wrong parameter."""
REDACTED = b"..."
MAX_CHARACTERS = 512
# An API key or a JWT in the wrong place, such as a path.
_TOKEN = re.compile(rb"eb_[A-Za-z0-9]+_[A-Za-z0-9_-]+|eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")


class AccessLog:
    """Logs responses, with their requests, status and duration."""

    def __init__(self, which: RequestLog, slow_secs: float, address_of: Callable[[Request], str]) -> None:
        self._which = which
        self._slow_secs = slow_secs
        self._address_of = address_of

    def answered(self, request: Request, response: Response, secs: float) -> None:
        """Log a response, if the settings select it. A streamed one is logged when it begins."""
        operation = operation_of(request)
        if not self._wanted(operation, response.status, secs):
            return
        level = logging.WARNING if response.status >= FAILED else logging.INFO
        method, target = request.method.decode("ascii", "replace"), loggable_target(request.path, request.query)
        extra: dict[str, object] = {
            "request_id": request_id(request),
            "operation": operation,
            "method": method,
            "target": target,
            "status": response.status,
            "duration_ms": round(secs * 1000, 3),
            "request_bytes": len(request.body),
            "response_bytes": len(response.body),
            "address": self._address_of(request),
        }
        if request.identity is not None:
            extra["identity"] = request.identity.subject
        if response.status >= REFUSED:
            extra["code"] = response.code
        words = "%s %s %d in %.1f ms"
        logger.log(level, words, method or "-", target or "-", response.status, secs * 1000, extra=extra)

    def _wanted(self, operation: str, status: int, secs: float) -> bool:
        if self._which is RequestLog.ALL or status >= FAILED:
            return True
        return self._which is RequestLog.SLOW and secs >= self._slow_secs and operation not in LIVE


def request_id(request: Request) -> str:
    """Return the id of a request, for its response, log records and trace. Each call returns the same one.

    The client's own id is used if it is short, plain and not a credential, so that headers, logs and documents may
    contain it. Otherwise an id is made.
    """
    if not request.id:
        request.id = _given(request) or secrets.token_hex(8)
    return request.id


def _given(request: Request) -> str:
    given = request.headers.get(REQUEST_ID, b"")
    return given.decode() if _SANE.fullmatch(given) and not holds_token(given) else ""


def id_line(request: Request) -> bytes:
    """Write the header with the id of the request."""
    return b"X-Request-Id: %b\r\n" % request_id(request).encode()


def loggable_target(path: bytes, query: bytes) -> str:
    """Return the target of a request without its secrets."""
    if not query:
        return printable(path)
    return printable(path + b"?" + b"&".join(map(_parameter, query.split(b"&"))))


def _parameter(parameter: bytes) -> bytes:
    name, separator, value = parameter.partition(b"=")
    plain = name in PLAIN_PARAMETERS and (name in NAMES or len(value) <= MAX_PLAIN_BYTES)
    return name + separator + (value if plain or not value else REDACTED)


def holds_token(text: bytes) -> bool:
    """Tell whether a text contains something like an API key or a JWT, percent-encoded or not."""
    return _TOKEN.search(text) is not None or (b"%" in text and _TOKEN.search(unquote_to_bytes(text)) is not None)


def printable(text: bytes) -> str:
    """Return bytes of a client as one line of text, of bounded length, without anything like a token."""
    # An encoded token would not match the pattern below, so such a text is decoded first.
    if b"%" in text and holds_token(text):
        text = unquote_to_bytes(text)
    shown = _TOKEN.sub(REDACTED, text)[: MAX_CHARACTERS + 1].decode("ascii", "backslashreplace")
    shown = "".join(letter if letter.isprintable() else "?" for letter in shown)
    return shown if len(shown) <= MAX_CHARACTERS else shown[:MAX_CHARACTERS] + REDACTED.decode()
