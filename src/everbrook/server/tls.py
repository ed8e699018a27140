"""TLS certificates: how they are loaded, and reloaded when their files change.

Each connection is encrypted with the newest usable certificate. A renewal writes two files one after the other. While
the key does not match the certificate, the previous pair stays in use, and that is logged once for each state of the
files.
"""

import datetime as dt
import logging
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from everbrook.engine.clock import Timer
from everbrook.engine.faults import Callback, Faults
from everbrook.settings.sections.server import ClientCertificates, TlsSettings, TlsVersion

logger = logging.getLogger(__name__)

PROTOCOLS = ("http/1.1",)

_VERSIONS = {TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2, TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3}
_DEMANDS = {
    ClientCertificates.OFF: ssl.CERT_NONE,
    ClientCertificates.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientCertificates.REQUIRED: ssl.CERT_REQUIRED,
}

_MISMATCHES = {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"}

Stamp = tuple[int, int, int] | None
"""Differs between two states of a file, whether it was overwritten or replaced. None means that it is missing."""

Load = Callable[[TlsSettings], ssl.SSLContext]


class CertificateUnusable(OSError):
    """A file of the settings can't be used for TLS. The message says which, and why."""


class Certificates:
    """The certificate for new connections. The last usable one stays in use whatever happens to the files."""

    def __init__(self, settings: TlsSettings, look_secs: float, load: Load | None = None) -> None:
        """Load the files, or raise `CertificateUnusable`. `watch` checks them every `look_secs`.

        `load` makes the TLS context, by default with `make_context`.
        """
        self.handshake_timeout_secs = settings.handshake_timeout_secs
        self._settings = settings
        self._look_secs = look_secs
        self._load = load or make_context
        # The files may change while they are loaded. Their stamps are taken before, so that later checks notice it.
        self._seen = self._settled = self._stamps()
        self._timer: Timer | None = None
        self.context = self._load(settings)

    def reload(self) -> None:
        """Use the files for new connections, or raise `CertificateUnusable`."""
        self._seen = self._settled = self._stamps()
        self.context = self._load(self._settings)
        logger.info("the certificate in %s is used from now on", self._settings.cert_path)

    def watch(self, faults: Faults) -> None:
        """Start to check the files periodically."""
        self._timer = faults.every(Callback.CERTIFICATE, self._look_secs, self.look)

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()

    def look(self) -> None:
        """Reload files that have changed, once they were the same in two checks: a renewal may still be writing."""
        stamps = self._stamps()
        if stamps == self._seen != self._settled:
            self._try_reload()
        self._seen = stamps

    def _try_reload(self) -> None:
        try:
            self.reload()
        except CertificateUnusable as error:
            problem = str(error)
        else:
            return
        logger.error("the certificate was not changed: %s", problem)

    def _stamps(self) -> tuple[Stamp, ...]:
        return tuple(map(_stamp, _paths(self._settings)))


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """Make the TLS context of the settings, or raise `CertificateUnusable`."""
    for path in _paths(settings):
        _require_readable(path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.min_version]
    context.set_alpn_protocols(PROTOCOLS)
    _load_pair(context, settings)
    if settings.client_certificates is not ClientCertificates.OFF:
        _ask_for_certificates(context, settings)
    return context


def _load_pair(context: ssl.SSLContext, settings: TlsSettings) -> None:
    cert, key = settings.cert_path, settings.key_path
    _check_certificate(cert)
    try:
        # Without this callback, OpenSSL would ask for a passphrase at the terminal.
        context.load_cert_chain(cert, key, password=_no_passphrase)
    except ssl.SSLError as error:
        if error.reason in _MISMATCHES:
            raise CertificateUnusable(
                f"the key in tls.key_path, {key}, is not that of the certificate in tls.cert_path, {cert}"
            ) from None
        raise CertificateUnusable(
            f"tls.key_path must hold a PEM private key, got {key}: {error.reason or error}"
        ) from None
    except _Protected:
        raise CertificateUnusable(f"the key in tls.key_path, {key}, needs a passphrase: store it without one") from None


class _Protected(Exception):
    """A private key is encrypted."""


def _no_passphrase() -> str:
    raise _Protected


def _check_certificate(path: str) -> None:
    """Refuse a file without certificates. Warn if the first one is not valid now, which only clients would notice."""
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificates(Path(path).read_bytes())[0]
    except (ValueError, x509.InvalidVersion):
        raise CertificateUnusable(f"tls.cert_path must hold PEM certificates, got {path}, which holds none") from None
    now = dt.datetime.now(dt.UTC)
    if now > certificate.not_valid_after_utc:
        logger.warning("the certificate in %s has expired, at %s", path, certificate.not_valid_after_utc)
    elif now < certificate.not_valid_before_utc:
        logger.warning("the certificate in %s is not valid before %s", path, certificate.not_valid_before_utc)


def _ask_for_certificates(context: ssl.SSLContext, settings: TlsSettings) -> None:
    path = settings.client_ca_path
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise CertificateUnusable(
            f"tls.client_ca_path must hold PEM certificates, got {path}, which holds none"
        ) from None
    context.verify_mode = _DEMANDS[settings.client_certificates]
    # A resumed session is trusted without checking its certificate again. So TLS 1.3 has no session tickets here; the
    # sessions of TLS 1.2 are kept in the context, and end with it when the files change.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET


def subject_of(certificate: Mapping[str, Any] | None) -> str | None:
    """Return the common name of a verified certificate, if it has exactly one and that is printable.

    Programs could read two names, or a name with a line end, as different identities.
    """
    pairs = [pair for relative in (certificate or {}).get("subject", ()) for pair in relative]
    names = [str(value) for kind, value in pairs if kind == "commonName"]
    return names[0] if len(names) == 1 and names[0].isprintable() and names[0] else None


def _paths(settings: TlsSettings) -> tuple[str, ...]:
    asked = settings.client_certificates is not ClientCertificates.OFF
    return (settings.cert_path, settings.key_path, *([settings.client_ca_path] if asked else []))


def _stamp(path: str) -> Stamp:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _require_readable(path: str) -> None:
    try:
        Path(path).open("rb").close()
    except OSError as error:
        raise CertificateUnusable(f"{path}, which TLS needs, can't be read: {error.strerror}") from None
