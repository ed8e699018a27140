"""Settings that are right one by one and wrong together: a half of something never means the whole, nor nothing."""

from collections.abc import Iterator, Mapping

from everbrook.settings.auth_values import SYMMETRIC, is_url, words_of
from everbrook.settings.errors import SettingsError
from everbrook.settings.schema import Settings
from everbrook.settings.sections.auth import AuthSettings
from everbrook.settings.sections.tls import ClientCertificates, TlsSettings
from everbrook.settings.sources import Given


def check_together(settings: Settings, given: Mapping[str, Given]) -> None:
    """Raise SettingsError for the first setting that needs another one, or excludes it."""
    for name, problem in _problems(settings):
        raise SettingsError(given[name].source, f"{name} {problem}")


def _problems(settings: Settings) -> Iterator[tuple[str, str]]:
    yield from _auth_problems(settings.auth)
    yield from _tls_problems(settings.tls)


def _auth_problems(auth: AuthSettings) -> Iterator[tuple[str, str]]:
    if auth.jwks and not auth.issuer:
        yield "auth.jwks", "needs auth.issuer: tokens of which issuer are good?"
    if auth.jwks and not auth.audience:
        yield "auth.jwks", "needs auth.audience: tokens for whom are good? ('*' if they don't say)"
    for key in ("issuer", "audience"):
        if getattr(auth, key) and not auth.jwks:
            yield f"auth.{key}", "means nothing without auth.jwks, the keys that tokens are verified by"
    if is_url(auth.jwks) and any(name in SYMMETRIC for name in words_of(auth.algorithms)):
        yield "auth.algorithms", "are of a shared secret, which is never fetched: auth.jwks must be a file for them"
    if auth.trusted_proxies and not auth.default_scopes:
        yield "auth.trusted_proxies", "need auth.default_scopes: a proxy says who asks, not what they may do"


def _tls_problems(tls: TlsSettings) -> Iterator[tuple[str, str]]:
    if tls.cert_path and not tls.key_path:
        yield "tls.cert_path", "needs tls.key_path, the private key of the certificate"
    if tls.key_path and not tls.cert_path:
        yield "tls.key_path", "needs tls.cert_path, the certificate that the key is of"
    if tls.client_certificates is not ClientCertificates.OFF and not tls.cert_path:
        yield "tls.client_certificates", "need tls.cert_path: only an encrypted connection shows certificates"
    if tls.client_certificates is not ClientCertificates.OFF and not tls.client_ca_path:
        yield "tls.client_certificates", "need tls.client_ca_path: certificates of which authorities are good?"
    if tls.client_ca_path and tls.client_certificates is ClientCertificates.OFF:
        yield "tls.client_ca_path", "means nothing while tls.client_certificates is off: optional or required?"
