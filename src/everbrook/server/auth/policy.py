"""The policy: the gates that authenticate and authorize requests, and the periodic check of rights.

Nothing is allowed that is not granted. A client without a grant on a path gets the same response whether or not a
stream exists there: 401 without an identity, 403 with one. A right can end while its request is under way: a token
expires, an API key is revoked, the policy changes. So live reads are authorized again periodically, and uploads at
their end.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from everbrook.engine.clock import Timer
from everbrook.engine.faults import Callback, Faults
from everbrook.protocol.errors import Forbidden, ProtocolError, Unauthorized, Unavailable
from everbrook.server.auth.actions import Action, action_of, cuts
from everbrook.server.auth.proxies import parse_networks, too_wide
from everbrook.server.auth.scopes import (
    Access,
    Grant,
    Identity,
    Verb,
    allows,
    below,
    format_scope,
    parse_prefixes,
    parse_scopes,
)
from everbrook.server.exchange import Request, Rights
from everbrook.server.location import StreamRoots
from everbrook.server.routes import METRICS
from everbrook.server.tuning import AUTH_TUNING
from everbrook.settings import AuthSettings, Settings
from everbrook.settings.loopback import is_loopback
from everbrook.settings.sections.server import ClientCertificates

_READERS = frozenset({Verb.READ, Verb.ADMIN})


_SURFACES = (b"/v1/stream", b"/ds")
_WRITING = frozenset({Verb.ADMIN, Verb.APPEND, Verb.CREATE, Verb.DELETE})


class Identifier(Protocol):
    """Verifies the credentials of requests."""

    def identify(self, request: Request) -> Identity | None:
        """Return the identity of a request, or None if it has no credentials. Raise if the credentials are wrong."""


class Authentication:
    """The gate that sets the identity of a request. It skips resources that check a token of their own."""

    def __init__(self, identifier: Identifier) -> None:
        self._identifier = identifier

    def admit(self, request: Request) -> None:
        """Set the identity. Wrong credentials are refused even on resources that need none."""
        if action_of(request).rule is not Access.OPEN:
            request.identity = self._identifier.identify(request)


class Authorization:
    """The gate that admits only what is granted. It is also the `Rights` of each request, for later checks."""

    def __init__(
        self,
        identifier: Identifier,
        roots: StreamRoots,
        public_read: str = "",
        *,
        public_metrics: bool = False,
        recheck_secs: float = AUTH_TUNING.recheck_secs,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`public_read` has the prefixes that everybody may read. Live reads are authorized again in `recheck_secs`."""
        self._identifier = identifier
        self._roots = roots
        self._public = parse_prefixes(public_read)
        self._public_metrics = public_metrics
        self._recheck_secs = recheck_secs
        self._now = now

    def admit(self, request: Request) -> None:
        """Admit a request whose action is granted."""
        request.rights = self
        action = action_of(request)
        if action.rule is Access.OPEN or (self._public_metrics and action.path == METRICS):
            return
        public = action.rule is Verb.READ and self._is_public(action.path)
        request.private = not public
        if not public and not self._grants(request, action):
            raise self.refusal(request, action.rule if isinstance(action.rule, Verb) else Verb.READ, action.path)
        if cuts(request, action) and not self.may_delete(request, action.path):
            raise self.refusal(request, Verb.DELETE, action.path)
        # A fork contains the messages of its source, so creating one must need the right to read the source.
        source = self._roots.source_of(request)
        if source is not None and not self._may_read(request, source):
            raise self.refusal(request, Verb.READ, source)

    def _grants(self, request: Request, action: Action) -> bool:
        if action.rule is Access.LISTED:
            return any(below(action.path, prefix) or below(prefix, action.path) for prefix in self.readable(request))
        return isinstance(action.rule, Verb) and allows(_grants_of(request), action.rule, action.path)

    def _may_read(self, request: Request, path: bytes) -> bool:
        return self._is_public(path) or allows(_grants_of(request), Verb.READ, path)

    def _is_public(self, path: bytes) -> bool:
        return bool(self._public) and any(below(prefix, path) for prefix in self._public)

    def refusal(self, request: Request, verb: Verb, path: bytes) -> ProtocolError:
        """Return the refusal of a request: 401 if it has no identity, else 403."""
        # The message names the scope that would be enough, and never says whether the stream exists.
        scope = format_scope(Grant(frozenset({verb}), path))
        if request.identity is None:
            return Unauthorized(f"an Authorization header with a Bearer token or API key is needed that grants {scope}")
        return Forbidden(f"{request.identity.subject!r} may not do this: it needs the scope {scope}, or a wider one")

    # The rights of a request that was admitted

    def may_delete(self, request: Request, path: bytes) -> bool:
        """Tell whether a request may remove what others have appended."""
        return allows(_grants_of(request), Verb.DELETE, path)

    def readable(self, request: Request) -> tuple[bytes, ...]:
        """Return the prefixes below which a request may read."""
        granted = (grant.prefix for grant in _grants_of(request) if grant.verbs & _READERS)
        return (*self._public, *granted)

    def lasts_secs(self, request: Request) -> float:
        """Return for how many seconds the decision is valid; at zero or less it has expired."""
        # The times are spread, so that readers that began together are not all checked in one turn of the loop.
        soon = self._recheck_secs * random.uniform(0.5, 1.0)  # noqa: S311 - it spreads work, it guards nothing
        expires_at_secs = request.identity.expires_at_secs if request.identity else None
        return soon if expires_at_secs is None else min(soon, expires_at_secs - self._now())

    def renew(self, request: Request) -> float:
        """Decide again, by the present keys and policy. A key set that can't be reached revokes no right.

        A token that is not verified, because its address sent too many bad ones, counts as missing.
        """
        try:
            request.identity = self._identifier.identify(request)
            self.admit(request)
        except Unavailable:
            pass
        except ProtocolError:
            return 0.0
        return self.lasts_secs(request)


def _grants_of(request: Request) -> tuple[Grant, ...]:
    return request.identity.grants if request.identity else ()


class RightsCheck:
    """Checks periodically whether a request still has the rights that it was admitted with, and ends it if not."""

    __slots__ = ("_end", "_faults", "_request", "_rights", "_timer")

    def __init__(self, faults: Faults, request: Request, rights: Rights, end: Callable[[], None]) -> None:
        """Call `end` when the request has lost its rights. A request that ends otherwise must `cancel`."""
        self._faults = faults
        self._request = request
        self._rights = rights
        self._end = end
        self._timer: Timer | None = None
        self._schedule(rights.lasts_secs(request))

    def _schedule(self, secs: float) -> None:
        # If the check itself fails, the request ends, because its rights are unknown.
        self._timer = self._faults.later(Callback.RIGHTS, max(0.0, secs), self._check, failed=self._end)

    def _check(self) -> None:
        left_secs = self._rights.renew(self._request)
        if left_secs > 0:
            self._schedule(left_secs)
        else:
            self._end()

    def cancel(self) -> None:
        if self._timer:
            self._timer.cancel()


def check_rights(faults: Faults, request: Request, end: Callable[[], None]) -> RightsCheck | None:
    """Check the rights of a live read periodically, if there is a policy."""
    return RightsCheck(faults, request, request.rights, end) if request.rights else None


def require_rights(request: Request) -> None:
    """Refuse a request that has lost its rights while its body arrived."""
    if request.rights and request.rights.renew(request) <= 0:
        raise Unauthorized("the right to do this ended while the body arrived: nothing was stored")


def policy_warnings(settings: Settings, addresses: Sequence[tuple[str, int]]) -> list[str]:
    """Return a warning for each part of the policy that is probably a mistake on a server at these addresses."""
    if settings.auth.configured:
        return list(_of_policy(settings.auth))
    known = settings.tls.configured and settings.tls.client_certificates is ClientCertificates.REQUIRED
    reached = [host for host, _ in addresses if not is_loopback(host)]
    return [] if known or not reached else [_no_policy(reached[0])]


def _no_policy(host: str) -> str:
    return (
        f"anybody who reaches {host} may read, write and delete everything: there is no policy. "
        "Set one (auth.api_keys_path, auth.jwks, …), or listen on 127.0.0.1 behind a proxy that has one"
    )


def _of_policy(auth: AuthSettings) -> Iterator[str]:
    for network in too_wide(parse_networks(auth.trusted_proxies)):
        yield (
            f"auth.trusted_proxies has {network}: nearly every address is in it, and each may claim any identity "
            f"by sending {auth.identity_header}. Name the addresses of your proxies"
        )
    for prefix in parse_prefixes(auth.public_read):
        if any(below(prefix, surface) for surface in _SURFACES):
            yield f"auth.public_read has {prefix.decode() or '/'!r}: everybody may read every stream there"
    for grant in parse_scopes(auth.default_scopes):
        if grant.verbs & _WRITING and any(below(grant.prefix, surface) for surface in _SURFACES):
            yield f"auth.default_scopes let every identity write below {grant.prefix.decode() or '/'!r}"
    if not (auth.jwks or auth.api_keys_path or auth.trusted_proxies or auth.url_keys_path or auth.default_scopes):
        yield "only auth.public_read is set: no client can prove an identity, and none may write"
