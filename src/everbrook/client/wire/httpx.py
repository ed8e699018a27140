"""The parts of the httpx2 wire that both sides of the client share: errors, timeouts and the TLS context."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import httpx2

from everbrook.client.errors import InvalidAnswer, Unreachable
from everbrook.client.wire.request import ConnectionBroken, NotConnected, Request, ResponseLate

# Every follower holds a connection, so there is no bound on them.
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100)

_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


def tls_context() -> ssl.SSLContext:
    """Return the TLS context that trusts the usual certificate authorities.

    All clients share it, because loading the authorities takes longer than everything else that a client needs. When
    their file changes, it is loaded again.
    """
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    return _load_context(file, folder, _state_of(file or ssl.get_default_verify_paths().openssl_cafile))


@lru_cache(maxsize=8)
def _load_context(_file: str | None, _folder: str | None, _state: tuple[int, int, int] | None) -> ssl.SSLContext:
    """Load the authorities once for each value of the variables, which httpx2 reads by itself."""
    return httpx2.create_ssl_context()


def _state_of(path: str) -> tuple[int, int, int] | None:
    """Identify the content of a file. A folder needs none: OpenSSL looks into it whenever it verifies."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


@contextmanager
def translated(request: Request) -> Iterator[None]:
    """Raise the errors of httpx2 as those of the client."""
    try:
        yield
    except httpx2.DecodingError as error:
        raise InvalidAnswer(f"{request}: the body does not match its Content-Encoding: {error}") from error
    except (httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
        raise Unreachable(f"{request}: {error}") from error
    except httpx2.TransportError as error:
        if isinstance(error, httpx2.LocalProtocolError) and str(error).startswith("Illegal header"):
            raise ValueError(f"{request} can't be sent: {error}") from error
        raise _kind_of(error)(str(error) or type(error).__name__) from error


def _kind_of(error: httpx2.TransportError) -> type[ConnectionBroken]:
    if isinstance(error, _NEVER_SENT):
        return NotConnected
    return ResponseLate if isinstance(error, httpx2.ReadTimeout) else ConnectionBroken


def timeouts_of(request: Request) -> httpx2.Timeout:
    """Convert the timeouts of a request."""
    return httpx2.Timeout(request.timeout_secs, read=request.read_timeout_secs)
