"""Certificates: what connections are encrypted with, and how that changes without a restart.

Each connection is encrypted with the newest certificate that could be used whole. A renewal writes two files one after
the other, so a pair that does not fit is not used: the one before goes on, and the log says so, once for each state of
the files.
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

# What tells one state of a file from another: a renewal may write it anew or put another one in its place.
Trace = tuple[int, int, int] | None

Load = Callable[[TlsSettings], ssl.SSLContext]


class CertificateUnusable(OSError):
    """A file of the settings can't be used for TLS; the message says which and why."""


class Certificates:
    """The certificate that connections are encrypted with. Made, it is usable; renewed, it stays so."""

    def __init__(self, settings: TlsSettings, look_secs: float, load: Load | None = None) -> None:
        """Load the files, or raise `CertificateUnusable`. `watch` looks at them every `look_secs`.

        `load` makes the context of the settings. The default is `make_context`.
        """
        self.handshake_timeout_secs = settings.handshake_timeout_secs
        self._settings = settings
        self._look_secs = look_secs
        self._load = load or make_context
        # The files may change while they are loaded. Their traces are taken before, so that the next looks notice it.
        self._seen = self._settled = self._traces()
        self._timer: Timer | None = None
        self.context = self._load(settings)

    def reload(self) -> None:
        """Encrypt connections that are made from now on with what the files hold now, or raise why that can't be."""
        self._seen = self._settled = self._traces()
        self.context = self._load(self._settings)
        logger.info("the certificate in %s is used from now on", self._settings.cert_path)

    def watch(self, faults: Faults) -> None:
        """Look at the files every few seconds, from now on."""
        self._timer = faults.every(Callback.CERTIFICATE, self._look_secs, self.look)

    def close(self) -> None:
        """Look at the files no more."""
        if self._timer:
            self._timer.cancel()

    def look(self) -> None:
        """Reload what has changed, once it has stayed the same for two looks: whoever writes it may not be done."""
        traces = self._traces()
        if traces == self._seen != self._settled:
            try:
                self.reload()
            except CertificateUnusable as error:
                logger.error("the certificate was not changed: %s", error)  # noqa: TRY400 - it says all there is to say
        self._seen = traces

    def _traces(self) -> tuple[Trace, ...]:
        return tuple(map(_trace, _paths(self._settings)))


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """Give what the files of the settings mean, or raise `CertificateUnusable`."""
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
        # Without an answer to the question for a passphrase it would be asked at the terminal.
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
    """Refuse a file without certificates; say so where the first one is not good now, for only clients notice."""
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
    # A resumed session is believed without its certificate being looked at again. TLS 1.3 has none, then; those of 1.2
    # are kept in the context, and end with it when the files change.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET


def subject_of(certificate: Mapping[str, Any] | None) -> str | None:
    """Give the common name of a verified certificate: None unless it has one, and a printable one.

    With two, or with a line end in it, others could read it as somebody else's.
    """
    pairs = [pair for relative in (certificate or {}).get("subject", ()) for pair in relative]
    names = [str(value) for kind, value in pairs if kind == "commonName"]
    return names[0] if len(names) == 1 and names[0].isprintable() and names[0] else None


def _paths(settings: TlsSettings) -> tuple[str, ...]:
    asked = settings.client_certificates is not ClientCertificates.OFF
    return (settings.cert_path, settings.key_path, *([settings.client_ca_path] if asked else []))


def _trace(path: str) -> Trace:
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
