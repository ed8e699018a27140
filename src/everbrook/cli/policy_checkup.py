"""What can be wrong with who may do what: certificates, keys, tokens, and what the policy lets anyone do."""

import asyncio
import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path

from everbrook.cli.checkup import Finding, State
from everbrook.settings import AuthSettings, Settings
from everbrook.settings.loopback import is_loopback

SOON_DAYS = 14
FETCH_SECS = 10.0


def check_tls(settings: Settings) -> Iterator[Finding]:
    """Load the certificate as a server does, and look at how long it is good."""
    from everbrook.server.tls import CertificateUnusable, make_context  # noqa: PLC0415

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
        return Finding("certificate", "ok", "none: only this machine reaches the server")
    return Finding(
        "certificate", "warn", f"none, and {host} can be reached by others: set tls.cert_path, or let a proxy encrypt"
    )


def _validity(path: Path) -> Finding:
    from cryptography import x509  # noqa: PLC0415

    until = x509.load_pem_x509_certificates(path.read_bytes())[0].not_valid_after_utc
    days = (until - dt.datetime.now(dt.UTC)).total_seconds() / 86_400
    if days < 0:
        return Finding("certificate", "fail", f"{path} has expired, on {until:%Y-%m-%d}: renew it")
    state: State = "warn" if days < SOON_DAYS else "ok"
    advice = ": renew it" if state == "warn" else ", and the key is its own"
    return Finding("certificate", state, f"{path} is good until {until:%Y-%m-%d}{advice}")


def check_auth(settings: Settings) -> Iterator[Finding]:
    """Say what the policy lets anyone do, and look at every file and address that it names."""
    from everbrook.server.auth.policy import cautions  # noqa: PLC0415

    warned = cautions(settings, [(settings.server.host, settings.server.port)])
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
    """Say in words who may do what."""
    if not auth.configured:
        return "there is none: anyone on this machine can read, write and delete everything"
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
    """Look at what a setting names. What is wrong with it is told without showing what it holds."""
    shown = place.partition("?")[0]
    try:
        return Finding(check, "ok", f"{shown} {look()}")
    except OSError as error:
        return Finding(check, "fail", f"{shown}: {error.strerror or str(error) or type(error).__name__}")
    except Exception as error:  # noqa: BLE001 - whatever keeps a server from using it is the finding
        return Finding(check, "fail", f"{shown}: {str(error) or type(error).__name__}")


def _count_keys(auth: AuthSettings) -> str:
    from everbrook.server.auth.issuer import fetch  # noqa: PLC0415
    from everbrook.server.auth.jwks import parse_key_set  # noqa: PLC0415

    fetched = auth.jwks.startswith(("http://", "https://"))

    async def bounded() -> bytes:
        async with asyncio.timeout(FETCH_SECS):
            return await fetch(auth.jwks)

    text = asyncio.run(bounded()) if fetched else Path(auth.jwks).read_bytes()
    parse_key_set(text, [name.strip() for name in auth.algorithms.split(",")])
    return "can be reached, and has keys that fit" if fetched else "has keys that fit"


def _api_keys(path: Path) -> str:
    from everbrook.server.auth.api_keys import parse_file  # noqa: PLC0415

    keys = parse_file(path.read_bytes()).keys
    return f"has {len(keys)}{_exposed(path)}"


def _url_keys(path: Path) -> str:
    from everbrook.server.auth.signed_urls import parse_file  # noqa: PLC0415

    return f"has {len(parse_file(path.read_bytes()).keys)}{_exposed(path)}"


def _exposed(path: Path) -> str:
    """Refuse a file of secrets that others on this machine can read."""
    if path.stat().st_mode & 0o077:
        raise PermissionError(0, f"others can read it: chmod 600 {path}")
    return ""
