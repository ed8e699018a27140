"""Scopes: verbs that are granted below a path, as `verb+verb:/prefix`, and the identities that have them.

A prefix is part of a URL's path. It is decoded once, here, and compared by whole segments with the decoded name that
the request's path was parsed to. So an attacker can't evade a grant by another spelling of a path.
"""

import re
from collections.abc import Iterable
from enum import Enum, StrEnum, auto
from urllib.parse import quote_from_bytes, unquote_to_bytes

from msgspec import Struct

SUBJECT = b"{sub}"
"""A placeholder for the subject of an identity, in the prefix of a configured scope."""
MAX_SUBJECT_BYTES = 256
SLASH = ord("/")
_SEPARATORS = re.compile(r"[,\s]+")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_FORBIDDEN = re.compile(rb"[\x00-\x1f\x7f\\]")
# Unquoted in a scope: a comma would end it, and braces stay readable.
_PLAIN = "/{}:@!$&'()*+;="


class Verb(StrEnum):
    """What can be granted on a path."""

    READ = "read"
    APPEND = "append"
    CREATE = "create"
    DELETE = "delete"
    ADMIN = "admin"


class Access(Enum):
    """The rules that are not verbs."""

    OPEN = auto()
    """Nothing: the resource holds no data, or checks a token of its own."""

    LISTED = auto()
    """The right to read anything below the path. The listing contains only what the client may read."""


Rule = Verb | Access


class Grant(Struct, frozen=True):
    """Verbs that are allowed on a path and everything below it. `prefix` is decoded and has no slash at its end."""

    verbs: frozenset[Verb]
    prefix: bytes


class Identity(Struct, frozen=True):
    """The sender of a request. `subject` is unique among the identities that were proven in the same way (`source`).

    Many clients have a `shared` identity: limits must not count them as one.
    """

    subject: str
    source: str
    grants: tuple[Grant, ...] = ()
    expires_at_secs: float | None = None
    shared: bool = False


_VERBS = {verb.value: verb for verb in Verb}


def parse_scopes(text: str) -> tuple[Grant, ...]:
    """Read scopes separated by commas or spaces. Raise a ValueError that says what is wrong with one."""
    return tuple(parse_scope(word) for word in _words(text))


def parse_claimed(claimed: Iterable[str]) -> tuple[Grant, ...]:
    """Read the scopes of a token. Scopes of other programs (`openid`, `read:users`) grant nothing."""
    return tuple(grant for text in claimed for word in _words(text) if (grant := _scope_or_none(word)))


def parse_scope(word: str) -> Grant:
    """Read one scope, such as `read+append:/v1/stream/chats`."""
    names, colon, prefix = word.partition(":")
    if not colon or not prefix:
        raise ValueError(f"a scope is verbs, a colon and a path, such as 'read:/v1/stream/chats', got {word!r}")
    unknown = [name for name in names.split("+") if name not in _VERBS]
    if unknown:
        raise ValueError(f"the verbs of a scope are {', '.join(_VERBS)}, joined by '+', got {unknown[0]!r} in {word!r}")
    return Grant(frozenset(_VERBS[name] for name in names.split("+")), parse_prefix(prefix))


def parse_prefixes(text: str) -> tuple[bytes, ...]:
    """Read prefixes separated by commas or spaces, such as `auth.public_read`."""
    return tuple(parse_prefix(word) for word in _words(text))


def parse_prefix(text: str) -> bytes:
    """Read the path of a scope as in a URL, and return it decoded, without a slash at its end. `/` becomes empty."""
    if not text.startswith("/"):
        raise ValueError(f"the path of a scope begins with '/', got {text!r}")
    if _BAD_ESCAPE.search(text):
        raise ValueError(f"a percent sign must be followed by two hexadecimal digits, got {text!r}")
    prefix = unquote_to_bytes(text).removesuffix(b"/")
    # A prefix with such a segment would silently grant nothing: no name of a stream has one.
    if any(not _plain(segment) for segment in prefix.split(b"/")[1:]):
        raise ValueError(f"the path of a scope has no empty or dot segment and no control character, got {text!r}")
    return prefix


def format_scopes(grants: Iterable[Grant]) -> str:
    """Write grants as `parse_scopes` reads them."""
    return " ".join(map(format_scope, grants))


def format_scope(grant: Grant) -> str:
    """Write one grant, its verbs in the order in which they are documented."""
    verbs = "+".join(verb.value for verb in Verb if verb in grant.verbs)
    return f"{verbs}:{quote_from_bytes(grant.prefix, safe=_PLAIN) or '/'}"


def expand(grants: Iterable[Grant], subject: str) -> tuple[Grant, ...]:
    """Replace `{sub}` by a subject.

    If the subject can't be a segment of a path, grants that contain it are dropped: a subject such as `..` or `a/b`
    must not reach another prefix.
    """
    text = subject.encode("utf-8", "surrogatepass")
    usable = b"/" not in text and _plain(text) and len(text) <= MAX_SUBJECT_BYTES
    return tuple(
        Grant(grant.verbs, grant.prefix.replace(SUBJECT, text)) if SUBJECT in grant.prefix else grant
        for grant in grants
        if usable or SUBJECT not in grant.prefix
    )


def allows(grants: Iterable[Grant], verb: Verb, path: bytes) -> bool:
    """Tell whether a verb is granted on a path. `admin` includes every verb."""
    for grant in grants:  # noqa: SIM110 - every request comes here, and a generator costs as much as the rest of it
        if (verb in grant.verbs or Verb.ADMIN in grant.verbs) and below(grant.prefix, path):
            return True
    return False


def below(prefix: bytes, path: bytes) -> bool:
    """Tell whether a path equals a prefix, or lies below it by whole segments."""
    return path.startswith(prefix) and (len(path) == len(prefix) or path[len(prefix)] == SLASH)


def _words(text: str) -> list[str]:
    return [word for word in _SEPARATORS.split(text) if word]


def _scope_or_none(word: str) -> Grant | None:
    try:
        return parse_scope(word)
    except ValueError:
        return None


def _plain(segment: bytes) -> bool:
    """Tell whether a text can be a segment of a stream's name."""
    if segment in {b"", b".", b".."} or _FORBIDDEN.search(segment):
        return False
    try:
        segment.decode()
    except UnicodeDecodeError:
        return False
    return True
