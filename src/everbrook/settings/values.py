"""From what a layer gives to the value of a setting, or an error that says what was expected.

The types and bounds are the schema's; the checks here are those that a type cannot hold.
"""

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import msgspec

from everbrook.settings.auth_values import CHECKS as AUTH_CHECKS
from everbrook.settings.errors import SettingsError
from everbrook.settings.fields import Field
from everbrook.settings.logfilter import parse_filter
from everbrook.settings.sections.log import LogLevel

ANY_ORIGIN = "*"

_LONGEST_QUOTE = 80
# As browsers write it in the Origin header: lower case, no path, not even a slash.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")
_VISIBLE_ASCII = re.compile(r"[!-~]+")
_ROOT = re.compile(r"/(?:[A-Za-z0-9._~-]+/)*")
# What the server has beside the streams of the base surface.
_TAKEN = ("/ds/", "/ui/", "/admin/", "/metrics/", "/healthz/", "/readyz/")


def convert(field: Field, value: object, *, source: str, text: bool) -> object:
    """Give ``value`` the type of its field; ``text`` means that numbers and words arrive as strings.

    An empty text unsets what may be unset.
    """
    if text and field.optional and value == "":
        return None
    try:
        converted: object = msgspec.convert(value, field.annotation, strict=not text)
        _CHECKS.get(field.name, _accept)(str(converted))
    except msgspec.ValidationError:
        raise _refusal(field, value, source) from None
    except ValueError as error:
        raise _refusal(field, value, source, f": {error}") from None
    return converted


def parse_origins(text: str) -> tuple[str, ...]:
    """Split ``http.cors_origins``: ``("*",)`` for all, ``()`` for none. Raise ValueError otherwise."""
    origins = tuple(map(str.strip, text.split(","))) if text.strip() else ()
    if origins == (ANY_ORIGIN,):
        return origins
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            raise ValueError(f"{origin!r} is not an origin")
    return origins


_CREDENTIALS = re.compile(r"://[^/\s]*@")


def _refusal(field: Field, value: object, source: str, reason: str = "") -> SettingsError:
    quote = _CREDENTIALS.sub("://…@", repr(value))
    if len(quote) > _LONGEST_QUOTE:
        quote = quote[:_LONGEST_QUOTE] + "…"
    return SettingsError(source, f"{field.name} must be {field.expected}, got {quote}{reason}")


def _accept(_text: str) -> None:
    pass


def _check_host(text: str) -> None:
    if not _VISIBLE_ASCII.fullmatch(text):
        raise ValueError("it is empty, or has characters that a name cannot have")
    if set(text) & set("/[]@"):
        raise ValueError("neither a URL nor brackets")


def _check_public_url(text: str) -> None:
    if not text:
        return
    if not _VISIBLE_ASCII.fullmatch(text):
        raise ValueError("it has characters that must be percent-encoded")
    url = urlsplit(text)
    if url.scheme not in {"http", "https"} or not url.hostname or url.port == 0:
        raise ValueError("it has no http or https scheme, or no host")
    if set(text) & set("@?#\\") or text.endswith("/"):
        raise ValueError("it says more than scheme, host, port and path")


def _check_root(text: str) -> None:
    if not _ROOT.fullmatch(text):
        raise ValueError("it does not begin and end with one slash, or has characters that must be percent-encoded")
    if text.startswith(_TAKEN):
        raise ValueError("the server has other things there")


def _check_alias(text: str) -> None:
    if text:
        _check_root(text)


def _check_data_dir(text: str) -> None:
    if not text.strip() or "\0" in text:
        raise ValueError("it is empty, or has a character that a path cannot have")


def _check_shard_count(text: str) -> None:
    if int(text).bit_count() != 1:
        raise msgspec.ValidationError


def _check_origins(text: str) -> None:
    parse_origins(text)


def _check_rust_log(text: str) -> None:
    parse_filter(text, default=LogLevel.INFO)


_CHECKS: Mapping[str, Callable[[str], None]] = {
    "server.host": _check_host,
    "server.public_url": _check_public_url,
    "server.stream_root": _check_root,
    "server.stream_root_alias": _check_alias,
    "http.cors_origins": _check_origins,
    "ui.connect_origins": _check_origins,
    "storage.data_dir": _check_data_dir,
    "storage.acid_shard_count": _check_shard_count,
    "log.rust_log": _check_rust_log,
    "audit.path": _check_data_dir,
    "traces.endpoint": _check_public_url,
    "traces.service_name": _check_data_dir,
    **AUTH_CHECKS,
}
