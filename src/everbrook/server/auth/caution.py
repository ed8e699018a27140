"""Caution: what the person who starts a server should be told of its policy, because it is rarely meant so."""

from collections.abc import Iterator, Sequence

from everbrook.server.auth.grants import below, parse_prefixes, parse_scopes
from everbrook.server.auth.identity import Verb
from everbrook.server.auth.proxies import careless, parse_networks
from everbrook.settings import AuthSettings, Settings
from everbrook.settings.loopback import is_loopback
from everbrook.settings.sections.tls import ClientCertificates

_SURFACES = (b"/v1/stream", b"/ds")
_WRITING = frozenset({Verb.ADMIN, Verb.APPEND, Verb.CREATE, Verb.DELETE})


def cautions(settings: Settings, addresses: Sequence[tuple[str, int]]) -> list[str]:
    """Give what to warn of, one line each, for a server that listens on these addresses."""
    if settings.auth.configured:
        return list(_of_policy(settings.auth))
    known = settings.tls.configured and settings.tls.client_certificates is ClientCertificates.REQUIRED
    reached = [host for host, _ in addresses if not is_loopback(host)]
    return [] if known or not reached else [_unguarded(reached[0])]


def _unguarded(host: str) -> str:
    return (
        f"whoever reaches {host} may read, write and delete everything: there is no policy. "
        "Set one (auth.api_keys_path, auth.jwks, …), or listen on 127.0.0.1 behind what has one"
    )


def _of_policy(auth: AuthSettings) -> Iterator[str]:
    for network in careless(parse_networks(auth.trusted_proxies)):
        yield (
            f"auth.trusted_proxies has {network}: nearly everybody is in it, and who is may take any identity "
            f"by sending {auth.identity_header}. Name the addresses of your proxies"
        )
    for prefix in parse_prefixes(auth.public_read):
        if any(below(prefix, surface) for surface in _SURFACES):
            yield f"auth.public_read has {prefix.decode() or '/'!r}: everybody may read every stream there"
    for grant in parse_scopes(auth.default_scopes):
        if grant.verbs & _WRITING and any(below(grant.prefix, surface) for surface in _SURFACES):
            yield f"auth.default_scopes let every identity write below {grant.prefix.decode() or '/'!r}"
    if not (auth.jwks or auth.api_keys_path or auth.trusted_proxies or auth.url_keys_path or auth.default_scopes):
        yield "auth.public_read is all that is set: nobody can prove an identity, and nobody may write"
