"""Checks of a server as clients reach it: its port, response, clock, certificate and policy."""

import asyncio
import datetime as dt
import http.client
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from everbrook.cli.commands.machine_checks import Finding, State
from everbrook.cli.connection import shown_url
from everbrook.settings import AuthSettings, Settings
from everbrook.settings.loopback import is_loopback

SKEW_SECS = 5.0
TIMEOUT_SECS = 5.0
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - compared with, not listened on
_OK = 200
SOON_DAYS = 14
FETCH_SECS = 10.0


def check_port(settings: Settings, *, timeout_secs: float = TIMEOUT_SECS) -> Iterator[Finding]:
    """Try to listen where the server would."""
    host, port = settings.server.host, settings.server.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            yield _taken(settings, error, timeout_secs)
            return
    yield Finding("port", "ok", f"{host}:{port} is free")


def near_url(settings: Settings) -> str:
    """Return the URL at which this machine reaches a server with these settings."""
    near = ANYWHERE.get(settings.server.host, settings.server.host)
    scheme = "https" if settings.tls.configured else "http"
    return f"{scheme}://{f'[{near}]' if ':' in near else near}:{settings.server.port}"


def _taken(settings: Settings, error: OSError, timeout_secs: float) -> Finding:
    host, port, encrypted = settings.server.host, settings.server.port, settings.tls.configured
    near, url = ANYWHERE.get(host, host), near_url(settings)
    responds = isinstance(_asked(url, _gullible(), timeout_secs), _Answer)
    if responds or (encrypted and _shows(settings.tls.cert_path, near, port, timeout_secs)):
        return Finding("port", "ok", f"a server is listening at {url}")
    return Finding("port", "fail", f"{host}:{port}: {error.strerror}; choose another with --port or server.port")


def _gullible() -> ssl.SSLContext:
    """Return a TLS context that accepts any certificate, to find out whether a server listens."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _shows(path: str, host: str, port: int, timeout_secs: float) -> bool:
    """Return whether a server shows the certificate in a file. If it requires client certificates, that is all."""
    try:
        shown = ssl.get_server_certificate((host, port), timeout=timeout_secs)
        own = Path(path).read_text()
    except (OSError, ValueError):
        return False
    return "".join(shown.split()) in "".join(own.split())


class _Answer(Struct, frozen=True):
    """The relevant parts of a response, and the difference of the clocks."""

    extensions: str
    skew_secs: float | None
    took_ms: float


def check_server(url: str, context: ssl.SSLContext | None = None) -> Iterator[Finding]:
    """Check the server that the other commands would use, with their TLS context."""
    response = _asked(url, context, TIMEOUT_SECS)
    url = shown_url(url)
    if isinstance(response, str):
        yield Finding("server", "fail", f"{url}: {response}; start one with `everbrook serve`, or set EVERBROOK_URL")
        return
    if response.extensions:
        yield Finding("server", "ok", f"{url} responds within {response.took_ms:.0f} ms")
    else:
        yield Finding(
            "server", "warn", f"{url} is healthy, but not an Everbrook server: ls, export and import need one"
        )
    if response.skew_secs is None:
        return
    if abs(response.skew_secs) > SKEW_SECS:
        yield Finding(
            "server's clock",
            "warn",
            f"{response.skew_secs:+.0f} s from the clock of this machine: synchronise both (NTP)",
        )
    else:
        yield Finding("server's clock", "ok", "agrees with the clock of this machine")


def _asked(url: str, context: ssl.SSLContext | None, timeout_secs: float) -> "_Answer | str":
    """Request the health of a server. Returns an error message if it does not respond."""
    began = time.perf_counter()
    try:
        response = _response(url, context, timeout_secs)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(error) or type(error).__name__
    if response.status != _OK:
        return f"it responds with status {response.status}"
    took_ms = (time.perf_counter() - began) * 1000
    return _Answer(response.headers.get("Stream-Extensions", ""), _skew_secs(response.headers.get("Date")), took_ms)


def _response(url: str, context: ssl.SSLContext | None, timeout_secs: float) -> http.client.HTTPResponse:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("the URL must begin with http:// or https://")
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=timeout_secs, context=context or ssl.create_default_context()
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_secs)
    try:
        connection.request("GET", parts.path.rstrip("/").removesuffix("/v1/stream") + "/healthz")
        response = connection.getresponse()
        response.read()
    finally:
        connection.close()
    return response


def _skew_secs(date: str | None) -> float | None:
    """Compare the `Date` of a response, which has whole seconds, with the clock of this machine."""
    try:
        return time.time() - parsedate_to_datetime(date or "").timestamp() - 0.5
    except ValueError:
        return None


def check_tls(settings: Settings) -> Iterator[Finding]:
    """Load the certificate as a server does, and check how long it is valid."""
    from everbrook.server.tls import CertificateUnusable, make_context

    if not settings.tls.configured:
        yield _unencrypted(settings.server.host)
        return
    try:
        make_context(settings.tls)
    except CertificateUnusable as error:
        yield Finding("certificate", "fail", str(error))
        return
    yield _validity(Path(settings.tls.cert_path))


def _unencrypted(host: str) -> Finding:
    if is_loopback(host):
        return Finding("certificate", "ok", "none: the server is reachable only from this machine")
    return Finding(
        "certificate", "warn", f"none, but others can reach {host}: set tls.cert_path, or let a proxy encrypt"
    )


def _validity(path: Path) -> Finding:
    from cryptography import x509

    until = x509.load_pem_x509_certificates(path.read_bytes())[0].not_valid_after_utc
    days = (until - dt.datetime.now(dt.UTC)).total_seconds() / 86_400
    if days < 0:
        return Finding("certificate", "fail", f"{path} has expired, on {until:%Y-%m-%d}: renew it")
    state: State = "warn" if days < SOON_DAYS else "ok"
    advice = ": renew it" if state == "warn" else ", and the key belongs to it"
    return Finding("certificate", state, f"{path} is valid until {until:%Y-%m-%d}{advice}")


def check_auth(settings: Settings) -> Iterator[Finding]:
    """Report what the policy allows to anyone, and read every file and address that it names."""
    from everbrook.server.auth.policy import policy_warnings

    warned = policy_warnings(settings, [(settings.server.host, settings.server.port)])
    for words in warned:
        yield Finding("policy", "warn", words)
    if not warned:
        yield Finding("policy", "ok", _summary(settings.auth))
    auth = settings.auth
    if auth.jwks:
        yield _read("key set", auth.jwks, lambda: _count_keys(auth))
    if auth.api_keys_path:
        yield _read("API keys", auth.api_keys_path, lambda: _api_keys(Path(auth.api_keys_path)))
    if auth.url_keys_path:
        yield _read("URL keys", auth.url_keys_path, lambda: _url_keys(Path(auth.url_keys_path)))


def _summary(auth: AuthSettings) -> str:
    """Summarise the policy."""
    if not auth.configured:
        return "none: anyone on this machine can read, write and delete everything"
    public = f"anyone can read below {auth.public_read}" if auth.public_read else "anyone can read nothing"
    ways = {
        f"tokens of {auth.issuer}": auth.jwks,
        "API keys": auth.api_keys_path,
        "signed URLs": auth.url_keys_path,
        f"the word of {auth.trusted_proxies}": auth.trusted_proxies,
    }
    known = ", ".join(way for way, value in ways.items() if value) or "nothing"
    scopes = auth.default_scopes or "nothing"
    return f"{public}; others are known by {known}; without scopes of their own they may {scopes}"


def _read(check: str, place: str, look: Callable[[], str]) -> Finding:
    """Check the file or URL of a setting. The finding never shows its content, which may be secret."""
    shown = place.partition("?")[0]
    try:
        return Finding(check, "ok", f"{shown} {look()}")
    except OSError as error:
        return Finding(check, "fail", f"{shown}: {error.strerror or str(error) or type(error).__name__}")
    except Exception as error:  # noqa: BLE001 - any error that keeps a server from using it is the finding
        return Finding(check, "fail", f"{shown}: {str(error) or type(error).__name__}")


def _count_keys(auth: AuthSettings) -> str:
    from everbrook.server.auth.issuer import fetch
    from everbrook.server.auth.jwks import parse_key_set

    fetched = auth.jwks.startswith(("http://", "https://"))

    async def bounded() -> bytes:
        async with asyncio.timeout(FETCH_SECS):
            return await fetch(auth.jwks)

    text = asyncio.run(bounded()) if fetched else Path(auth.jwks).read_bytes()
    parse_key_set(text, [name.strip() for name in auth.algorithms.split(",")])
    return "can be reached, and has keys that fit" if fetched else "has keys that fit"


def _api_keys(path: Path) -> str:
    from everbrook.server.auth.api_keys import parse_file

    keys = parse_file(path.read_bytes()).keys
    return f"has {len(keys)}{_exposed(path)}"


def _url_keys(path: Path) -> str:
    from everbrook.server.auth.signed_urls import parse_file

    return f"has {len(parse_file(path.read_bytes()).keys)}{_exposed(path)}"


def _exposed(path: Path) -> str:
    """Refuse a file of secrets that others on this machine can read."""
    if path.stat().st_mode & 0o077:
        raise PermissionError(0, f"other users can read it: chmod 600 {path}")
    return ""
