"""What can be wrong with a server that others speak to: the port where it listens, its answer, and its clock."""

import http.client
import socket
import ssl
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from everbrook.cli.checkup import Finding
from everbrook.cli.connection import shown_url
from everbrook.settings import Settings

SKEW_SECS = 5.0
TIMEOUT_SECS = 5.0
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - what is listened on, not by us
_OK = 200


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
    """Give where a server with such settings is found on this machine."""
    near = ANYWHERE.get(settings.server.host, settings.server.host)
    scheme = "https" if settings.tls.configured else "http"
    return f"{scheme}://{f'[{near}]' if ':' in near else near}:{settings.server.port}"


def _taken(settings: Settings, error: OSError, timeout_secs: float) -> Finding:
    host, port, encrypted = settings.server.host, settings.server.port, settings.tls.configured
    near, url = ANYWHERE.get(host, host), near_url(settings)
    answers = isinstance(_asked(url, _gullible(), timeout_secs), _Answer)
    if answers or (encrypted and _shows(settings.tls.cert_path, near, port, timeout_secs)):
        return Finding("port", "ok", f"a server is listening at {url}")
    return Finding("port", "fail", f"{host}:{port}: {error.strerror}; choose another with --port or server.port")


def _gullible() -> ssl.SSLContext:
    """Give what believes anyone: whether somebody listens is the question, and not who. Nothing is told to them."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _shows(path: str, host: str, port: int, timeout_secs: float) -> bool:
    """Tell whether a server shows the certificate in a file. One that wants to see ours first gives no other answer."""
    try:
        shown = ssl.get_server_certificate((host, port), timeout=timeout_secs)
        own = Path(path).read_text()
    except (OSError, ValueError):
        return False
    return "".join(shown.split()) in "".join(own.split())


class _Answer(Struct, frozen=True):
    """What a server said, and how far its clock is from ours."""

    extensions: str
    skew_secs: float | None
    took_ms: float


def check_server(url: str, context: ssl.SSLContext | None = None) -> Iterator[Finding]:
    """Ask the server that commands would speak to, as they would: `context` is what TLS believes and shows."""
    answer = _asked(url, context, TIMEOUT_SECS)
    url = shown_url(url)
    if isinstance(answer, str):
        yield Finding("server", "fail", f"{url}: {answer}; start one with `everbrook serve`, or set EVERBROOK_URL")
        return
    if answer.extensions:
        yield Finding("server", "ok", f"{url} answers within {answer.took_ms:.0f} ms")
    else:
        yield Finding(
            "server", "warn", f"{url} is healthy, and not an Everbrook server: ls, export and import need one"
        )
    if answer.skew_secs is None:
        return
    if abs(answer.skew_secs) > SKEW_SECS:
        yield Finding(
            "server's clock", "warn", f"{answer.skew_secs:+.0f} s from that of this machine: have both keep time (NTP)"
        )
    else:
        yield Finding("server's clock", "ok", "as that of this machine")


def _asked(url: str, context: ssl.SSLContext | None, timeout_secs: float) -> "_Answer | str":
    """Ask for the health of a server, or say in words why there is no answer."""
    began = time.perf_counter()
    try:
        response = _response(url, context, timeout_secs)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(error) or type(error).__name__
    if response.status != _OK:
        return f"it answers {response.status}"
    took_ms = (time.perf_counter() - began) * 1000
    return _Answer(response.headers.get("Stream-Extensions", ""), _skew_secs(response.headers.get("Date")), took_ms)


def _response(url: str, context: ssl.SSLContext | None, timeout_secs: float) -> http.client.HTTPResponse:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("a URL begins with http:// or https://")
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
    """Compare the time of an answer, which is of whole seconds, with ours."""
    try:
        return time.time() - parsedate_to_datetime(date or "").timestamp() - 0.5
    except ValueError:
        return None
