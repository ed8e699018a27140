"""Credentials: the ways to prove an identity, in order of precedence. The first one that a request has decides.

`Authorization: Bearer` with an API key or a token; a signed URL; the header of a trusted proxy; a client certificate.
A request with none of them is anonymous. A wrong credential is refused, even if a right one of another kind follows.
Kinds of credentials that are not configured are ignored.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar

from everbrook.protocol.errors import TokenInvalid, Unauthorized
from everbrook.server.auth.api_keys import PREFIX, ApiKeys
from everbrook.server.auth.proxies import Proxies
from everbrook.server.auth.scopes import Grant, Identity, expand, parse_scopes
from everbrook.server.auth.signed_urls import SignedUrls, is_signed
from everbrook.server.exchange import Request
from everbrook.server.limits.rates import client_of
from everbrook.server.tuning import AUTH_TUNING, AuthTuning
from everbrook.settings import AuthSettings
from everbrook.settings.checks import is_url, words_of
from everbrook.settings.sections.auth import ANY_AUDIENCE

if TYPE_CHECKING:
    from everbrook.server.auth.issuer import Keys
    from everbrook.server.auth.tokens import BearerTokens

T = TypeVar("T")

PROXY = "proxy"
CERTIFICATE = "certificate"
BEARER = b"bearer"


class Authenticator:
    """Finds the identities of requests."""

    def __init__(
        self, settings: AuthSettings, proxies: Proxies | None = None, tuning: AuthTuning = AUTH_TUNING
    ) -> None:
        """Read the files that the settings name, or raise SettingsError. Keys at a URL are fetched by `begin`."""
        self._default_grants = parse_scopes(settings.default_scopes)
        self._keys = _open_keys(settings, tuning) if settings.jwks else None
        self._tokens = _open_tokens(self._keys, settings, self._default_grants, tuning) if self._keys else None
        self._api_keys = ApiKeys(settings.api_keys_path, tuning=tuning.watch) if settings.api_keys_path else None
        self._signed_urls = SignedUrls(settings.url_keys_path, tuning=tuning.watch) if settings.url_keys_path else None
        self._bears = bool(self._tokens or self._api_keys)
        self._proxies = proxies or Proxies(settings.trusted_proxies, settings.identity_header)
        self._asserted = lru_cache(maxsize=4096)(self._assert)

    async def begin(self) -> None:
        """Fetch the keys of tokens. If their issuer can't be reached now, they are fetched later."""
        if self._keys is not None:
            await self._keys.begin()

    def identify(self, request: Request) -> Identity | None:
        """Return the identity of a request, or None if it is anonymous.

        Raise `Unauthorized` for a wrong credential, and `Unavailable` if it can't be verified now.
        """
        if self._bears and (authorization := request.headers.get(b"authorization")) is not None:
            return self._identify_bearer(authorization, request)
        if self._signed_urls is not None and is_signed(request.query):
            return self._signed_urls.identify(request)
        if self._proxies.speaks(request):
            # A certificate would be the proxy's own, not that of its client.
            subject = self._proxies.proxied_identity(request)
            return None if subject is None else self._asserted(subject, PROXY)
        certificate = request.peer.certificate
        return None if certificate is None else self._asserted(certificate, CERTIFICATE)

    @property
    def reloads(self) -> list[Callable[[], None]]:
        """The functions that read each file and key set again. A file that can't be used changes nothing."""
        return [part.reload for part in (self._keys, self._api_keys, self._signed_urls) if part is not None]

    async def close(self) -> None:
        if self._keys is not None:
            await self._keys.close()

    def _identify_bearer(self, authorization: bytes, request: Request) -> Identity:
        scheme, _, credential = authorization.partition(b" ")
        credential = credential.strip(b" ")
        if scheme.lower() != BEARER or not credential or b" " in credential or b"," in credential:
            # The header is not shown, because it may be a secret.
            raise Unauthorized("Authorization must be 'Bearer' and one token")
        if credential.startswith(PREFIX):
            return _require(self._api_keys, "API keys").identify(credential)
        return _require(self._tokens, "tokens").identify(credential, client_of(self._proxies.client_address(request)))

    def _assert(self, subject: str, source: str) -> Identity:
        """Return the identity of a subject that has no scopes of its own."""
        return Identity(subject, source, expand(self._default_grants, subject))


def _require(part: T | None, what: str) -> T:
    if part is None:
        raise TokenInvalid(f"{what} are not configured on this server")
    return part


# Imported where they are used: a server without tokens needs no cryptography for them.


def _open_keys(settings: AuthSettings, tuning: AuthTuning) -> "Keys":
    from everbrook.server.auth.issuer import FetchedKeys, FileKeys
    from everbrook.server.auth.jwks import parse_key_set

    parse = partial(parse_key_set, algorithms=tuple(words_of(settings.algorithms)))
    if is_url(settings.jwks):
        return FetchedKeys(settings.jwks, parse, settings.jwks_refresh_secs, tuning.issuer)
    return FileKeys(settings.jwks, parse, tuning.watch)


def _open_tokens(
    keys: "Keys", settings: AuthSettings, default_grants: tuple[Grant, ...], tuning: AuthTuning
) -> "BearerTokens":
    from everbrook.server.auth.tokens import BearerTokens, Expectation

    expected = Expectation(
        settings.issuer,
        None if settings.audience == ANY_AUDIENCE else settings.audience,
        tuple(words_of(settings.algorithms)),
        settings.leeway_secs,
        tuple(words_of(settings.scope_claim)),
        default_grants,
    )
    return BearerTokens(keys, expected, tuning=tuning.tokens)
