"""Redaction: what a log line may hold of a request. No header is logged, and of a query only what is known to be plain.

A list of what is secret would miss the one that was thought of last, or that is spelt with percent signs.
"""

import re
from urllib.parse import unquote_to_bytes

PLAIN_PARAMETERS = frozenset(
    b"offset live cursor until at last skip max_bytes format limit prefix after changed_since expires stream".split()
)
"""Parameters of the protocol, whose values are no secret."""

NAMES = frozenset(b"prefix after stream".split())
MAX_PLAIN_BYTES = 40
"""What is longer and no name is none of the protocol's: a signature that went astray has more."""

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
    plain = name in PLAIN_PARAMETERS and (name in NAMES or len(value) <= MAX_PLAIN_BYTES)
    return name + separator + (value if plain or not value else REDACTED)


def holds_token(text: bytes) -> bool:
    """Tell whether there is something like an API key or a JWT in a text, however it is spelt."""
    return _TOKEN.search(text) is not None or (b"%" in text and _TOKEN.search(unquote_to_bytes(text)) is not None)


def printable(text: bytes) -> str:
    """Give bytes of a client as text of one line, no longer than a line should be, without anything like a token."""
    if b"%" in text and holds_token(text):
        text = unquote_to_bytes(text)
    told = _TOKEN.sub(REDACTED, text)[: MAX_CHARACTERS + 1].decode("ascii", "backslashreplace")
    told = "".join(letter if letter.isprintable() else "?" for letter in told)
    return told if len(told) <= MAX_CHARACTERS else told[:MAX_CHARACTERS] + REDACTED.decode()
