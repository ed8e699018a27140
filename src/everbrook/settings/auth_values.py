"""Checks of the settings of auth, one setting at a time. Each says what is wrong, for the person who wrote it."""

import re
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from urllib.parse import unquote_to_bytes, urlsplit

from everbrook.settings.loopback import is_loopback

ASYMMETRIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
SYMMETRIC = ("HS256", "HS384", "HS512")
VERBS = ("read", "append", "create", "delete", "admin")

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_VISIBLE_ASCII = re.compile(r"[!-~]+")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_FORBIDDEN = re.compile(rb"[\x00-\x1f\x7f\\]")
_SEPARATORS = re.compile(r"[,\s]+")
_TAKEN = {"authorization", "connection", "cookie", "date", "expect", "forwarded", "from", "host", "keep-alive"} | {
    *("last-event-id", "origin", "range", "referer", "te", "trailer", "transfer-encoding", "traceparent", "tracestate"),
    *("upgrade", "user-agent", "via", "x-real-ip", "x-request-id"),
}
_TAKEN_PREFIXES = (
    "accept",
    "access-control-",
    "content-",
    "if-",
    "producer-",
    "proxy-",
    "sec-",
    "stream-",
    "x-forwarded-",
)


def words_of(text: str) -> list[str]:
    """Split a list that stands in one text, by commas or spaces."""
    return [word for word in _SEPARATORS.split(text) if word]


def is_url(text: str) -> bool:
    """Tell whether a key set is fetched, rather than read from a file."""
    return bool(_URL.match(text))


def _check_key_set(text: str) -> None:
    if not is_url(text):
        return _check_file(text)
    url = urlsplit(text)
    if not _VISIBLE_ASCII.fullmatch(text) or not url.hostname or url.port == 0:
        raise ValueError("it has no host, or characters that must be percent-encoded")
    if "@" in url.netloc or url.fragment:
        raise ValueError("a URL of keys has neither credentials nor a fragment")
    if url.scheme == "http" and not is_loopback(url.hostname):
        raise ValueError("whoever is on the way could give keys of their own: it must be https")
    if url.scheme not in {"http", "https"}:
        raise ValueError(f"the server does not speak {url.scheme!r}")
    return None


def _check_file(text: str) -> None:
    if "\0" in text or text != text.strip():
        raise ValueError("it has a character that a path cannot have, or blanks around it")


def _check_line(text: str) -> None:
    if not text.isprintable() or text != text.strip():
        raise ValueError("it has blanks around it, or characters that can't be printed")


def _check_algorithms(text: str) -> None:
    names = words_of(text)
    unknown = [name for name in names if name not in ASYMMETRIC + SYMMETRIC]
    if unknown or not names:
        raise ValueError(f"{unknown[0]!r} is none of {', '.join(ASYMMETRIC + SYMMETRIC)}" if unknown else "it is empty")
    if any(name in SYMMETRIC for name in names) and any(name in ASYMMETRIC for name in names):
        raise ValueError("a secret that is shared and keys that are public don't go together")


def _check_claims(text: str) -> None:
    if not words_of(text):
        raise ValueError("it is empty")


def _check_scopes(text: str) -> None:
    for word in words_of(text):
        verbs, colon, path = word.partition(":")
        if not colon:
            raise ValueError(f"{word!r} has no colon between its verbs and its path")
        unknown = [verb for verb in verbs.split("+") if verb not in VERBS]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is none of the verbs {', '.join(VERBS)}")
        _check_prefix(path)


def _check_prefixes(text: str) -> None:
    for word in words_of(text):
        _check_prefix(word)


def _check_prefix(path: str) -> None:
    if not path.startswith("/"):
        raise ValueError(f"{path!r} does not begin with '/'")
    if _BAD_ESCAPE.search(path):
        raise ValueError(f"{path!r} has a percent sign without two hexadecimal digits after it")
    # What is compared with the name of a stream is what it decodes to.
    decoded = unquote_to_bytes(path).removesuffix(b"/")
    if any(segment in {b"", b".", b".."} for segment in decoded.split(b"/")[1:]):
        raise ValueError(f"{path!r} has an empty segment, or one of dots")
    if _FORBIDDEN.search(decoded) or not _is_text(decoded):
        raise ValueError(f"{path!r} has a backslash, a control character, or bytes that are no UTF-8")


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_networks(text: str) -> None:
    for word in words_of(text):
        ip_network(word)  # its own words for what is wrong name the value


def _check_header(text: str) -> None:
    if not _HEADER_NAME.fullmatch(text):
        raise ValueError("it is empty, or has characters that a header's name cannot have")
    name = text.lower()
    if name in _TAKEN or name.startswith(_TAKEN_PREFIXES):
        raise ValueError("that header has a meaning of its own: clients, or other proxies, send it too")
    if "_" in name:
        raise ValueError("proxies drop headers with an underscore, or take them for one with a hyphen")


CHECKS: Mapping[str, Callable[[str], None]] = {
    "auth.jwks": _check_key_set,
    "auth.issuer": _check_line,
    "auth.audience": _check_line,
    "auth.algorithms": _check_algorithms,
    "auth.scope_claim": _check_claims,
    "auth.default_scopes": _check_scopes,
    "auth.public_read": _check_prefixes,
    "auth.trusted_proxies": _check_networks,
    "auth.identity_header": _check_header,
    "auth.api_keys_path": _check_file,
    "auth.url_keys_path": _check_file,
}
