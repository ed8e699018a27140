"""The conversion of values from a layer to settings, and the checks of them. Errors say what was expected.

The schema has types and bounds. This module has the checks that a type can't express: first of single settings, then of
settings that need or exclude each other (cross-field checks: a partial configuration is an error).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_network
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec

from everbrook.settings.fields import Field, SettingsError
from everbrook.settings.log_filter import parse_filter
from everbrook.settings.loopback import is_loopback
from everbrook.settings.schema import Settings
from everbrook.settings.sections.auth import AuthSettings
from everbrook.settings.sections.observe import LogLevel
from everbrook.settings.sections.server import ClientCertificates, TlsSettings

ASYMMETRIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
SYMMETRIC = ("HS256", "HS384", "HS512")
ANY_ORIGIN = "*"
VERBS = ("read", "append", "create", "delete", "admin")

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_VISIBLE_ASCII = re.compile(r"[!-~]+")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_FORBIDDEN = re.compile(rb"[\x00-\x1f\x7f\\]")
_SEPARATORS = re.compile(r"[,\s]+")
_TAKEN_HEADERS = {
    *("authorization", "connection", "cookie", "date", "expect", "forwarded", "from", "host", "keep-alive"),
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
_LONGEST_QUOTE = 80
_CREDENTIALS = re.compile(r"://[^/\s]*@")
# An origin as browsers send it: lower case, without a path or a slash at its end.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")
_ROOT = re.compile(r"/(?:[A-Za-z0-9._~-]+/)*")
# The paths of the server's other resources.
_TAKEN_PATHS = ("/ds/", "/ui/", "/admin/", "/metrics/", "/healthz/", "/readyz/")


def convert(field: Field, value: object, *, source: str, text: bool) -> object:
    """Convert ``value`` to the type of its field; ``text`` means that numbers and words arrive as strings.

    An empty text unsets an optional field.
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


def _refusal(field: Field, value: object, source: str, reason: str = "") -> SettingsError:
    # The message may end up in a log, so it must not contain a password.
    quote = _CREDENTIALS.sub("://…@", repr(value))
    if len(quote) > _LONGEST_QUOTE:
        quote = quote[:_LONGEST_QUOTE] + "…"
    return SettingsError(source, f"{field.name} must be {field.expected}, got {quote}{reason}")


def _accept(_text: str) -> None:
    pass


def words_of(text: str) -> list[str]:
    """Split a text by commas and spaces."""
    return [word for word in _SEPARATORS.split(text) if word]


def is_url(text: str) -> bool:
    """Tell whether a key set is at a URL, and not in a file."""
    return bool(_URL.match(text))


def _check_key_set(text: str) -> None:
    if not is_url(text):
        return _check_file(text)
    url = urlsplit(text)
    if not _VISIBLE_ASCII.fullmatch(text) or not url.hostname or url.port == 0:
        raise ValueError("it has no host, or has characters that must be percent-encoded")
    if "@" in url.netloc or url.fragment:
        raise ValueError("it must have no credentials and no fragment")
    if url.scheme == "http" and not is_loopback(url.hostname):
        raise ValueError("it must be https: over http an attacker on the network could replace the keys")
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
        raise ValueError("algorithms with a shared secret (HS…) can't be combined with others")


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
    # The decoded prefix is what is compared with the names of streams, so that is what must be valid.
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
        ip_network(word)  # its error message names the value


def _check_header(text: str) -> None:
    if not _HEADER_NAME.fullmatch(text):
        raise ValueError("it is empty, or has characters that a header's name cannot have")
    name = text.lower()
    if name in _TAKEN_HEADERS or name.startswith(_TAKEN_PREFIXES):
        raise ValueError("that header has another meaning: clients or other proxies send it too")
    if "_" in name:
        raise ValueError("proxies drop headers with an underscore, or replace the underscore by a hyphen")


def _check_host(text: str) -> None:
    if not _VISIBLE_ASCII.fullmatch(text):
        raise ValueError("it is empty, or has characters that a name cannot have")
    if set(text) & set("/[]@"):
        raise ValueError("it must be a host alone, without URL or brackets")


def _check_public_url(text: str) -> None:
    if not text:
        return
    if not _VISIBLE_ASCII.fullmatch(text):
        raise ValueError("it has characters that must be percent-encoded")
    url = urlsplit(text)
    if url.scheme not in {"http", "https"} or not url.hostname or url.port == 0:
        raise ValueError("it has no http or https scheme, or no host")
    if set(text) & set("@?#\\") or text.endswith("/"):
        raise ValueError("it must be scheme, host, port and path alone")


def _check_root(text: str) -> None:
    if not _ROOT.fullmatch(text):
        raise ValueError("it does not begin and end with one slash, or has characters that must be percent-encoded")
    if text.startswith(_TAKEN_PATHS):
        raise ValueError("the server serves something else below that path")


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


def find_conflicts(settings: Settings) -> Iterator[tuple[str, str]]:
    """Cross-field checks: yield each setting that conflicts with another one or lacks it, and the problem."""
    yield from _auth_problems(settings.auth)
    yield from _tls_problems(settings.tls)


def _auth_problems(auth: AuthSettings) -> Iterator[tuple[str, str]]:
    if auth.jwks and not auth.issuer:
        yield "auth.jwks", "needs auth.issuer, the issuer whose tokens are accepted"
    if auth.jwks and not auth.audience:
        yield "auth.jwks", "needs auth.audience, the audience whose tokens are accepted ('*': any)"
    for key in ("issuer", "audience"):
        if getattr(auth, key) and not auth.jwks:
            yield f"auth.{key}", "has no effect without auth.jwks, the keys that verify tokens"
    if is_url(auth.jwks) and any(name in SYMMETRIC for name in words_of(auth.algorithms)):
        yield "auth.algorithms", "use a shared secret, which is never fetched: auth.jwks must be a file"
    if auth.trusted_proxies and not auth.default_scopes:
        yield "auth.trusted_proxies", "need auth.default_scopes: a proxy says who the client is, not what it may do"


def _tls_problems(tls: TlsSettings) -> Iterator[tuple[str, str]]:
    if tls.cert_path and not tls.key_path:
        yield "tls.cert_path", "needs tls.key_path, the private key of the certificate"
    if tls.key_path and not tls.cert_path:
        yield "tls.key_path", "needs tls.cert_path, the certificate that the key is of"
    if tls.client_certificates is not ClientCertificates.OFF and not tls.cert_path:
        yield "tls.client_certificates", "need tls.cert_path: only an encrypted connection shows certificates"
    if tls.client_certificates is not ClientCertificates.OFF and not tls.client_ca_path:
        yield "tls.client_certificates", "need tls.client_ca_path, the authorities of accepted certificates"
    if tls.client_ca_path and tls.client_certificates is ClientCertificates.OFF:
        yield "tls.client_ca_path", "has no effect while tls.client_certificates is off: set it to optional or required"
