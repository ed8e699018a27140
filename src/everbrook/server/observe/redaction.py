"""Redaction: what a log line may hold of a request. No header is logged, and of a query only what is known to be plain.

A list of what is secret would miss the one that was thought of last, or that is spelt with percent signs.
"""

import re

PLAIN_PARAMETERS = frozenset(
    b"offset live cursor until at last skip format limit prefix after changed_since expires stream".split()
)
"""Parameters of the protocol, whose values are no secret."""

REDACTED = b"..."
MAX_CHARACTERS = 512

# An API key or a JWT that somebody put where it does not belong, as in a path.
_TOKEN = re.compile(rb"eb_[A-Za-z0-9]+_[A-Za-z0-9_-]+|eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")


def loggable_target(path: bytes, query: bytes) -> str:
    """Give the target of a request as it may be logged."""
    if not query:
        return printable(path)
    return printable(path + b"?" + b"&".join(map(_parameter, query.split(b"&"))))


def _parameter(parameter: bytes) -> bytes:
    name, separator, value = parameter.partition(b"=")
    return name + separator + (value if name in PLAIN_PARAMETERS else REDACTED if value else b"")


def printable(text: bytes) -> str:
    """Give bytes of a client as text of one line, no longer than a line should be, without anything like a token."""
    told = _TOKEN.sub(REDACTED, text)[: MAX_CHARACTERS + 1].decode("ascii", "backslashreplace")
    told = "".join(letter if letter.isprintable() else "?" for letter in told)
    return told if len(told) <= MAX_CHARACTERS else told[:MAX_CHARACTERS] + REDACTED.decode()
