"""The gates of identity: one finds out who asks, one whether that one may.

Nothing is allowed that is not granted, and whether there is anything at a path is not told to those who have no grant
on it: they are answered the same either way. Who is unknown is asked for credentials (401); who is known is refused
(403).
"""

import random
import time
from collections.abc import Callable
from typing import Protocol

from everbrook.protocol.errors import Forbidden, ProtocolError, Unauthorized, Unavailable
from everbrook.server.auth.actions import Access, Action, action_of, cuts
from everbrook.server.auth.grants import allows, below, format_scope, parse_prefixes
from everbrook.server.auth.identity import Grant, Identity, Verb
from everbrook.server.auth.tuning import DEFAULT_TUNING
from everbrook.server.exchange import Request
from everbrook.server.roots import StreamRoots
from everbrook.server.routes import METRICS

_READERS = frozenset({Verb.READ, Verb.ADMIN})


class Identifier(Protocol):
    """What proves identities."""

    def identify(self, request: Request) -> Identity | None:
        """Give who asks, or None if the request does not say. Raise if what it says is not so."""


class Authentication:
    """The gate that finds out who asks, wherever that matters. Some resources take a token of another kind."""

    def __init__(self, identifier: Identifier) -> None:
        self._identifier = identifier

    def admit(self, request: Request) -> None:
        """Set the identity of a request. Wrong credentials are refused even where none are needed."""
        if action_of(request).rule is not Access.OPEN:
            request.identity = self._identifier.identify(request)


class Authorization:
    """The gate that lets only what is granted pass. What it knows of a request's rights stays at hand (`Rights`)."""

    def __init__(
        self,
        identifier: Identifier,
        roots: StreamRoots,
        public_read: str = "",
        *,
        public_metrics: bool = False,
        recheck_secs: float = DEFAULT_TUNING.recheck_secs,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Take the paths that everybody may read, as they are configured.

        Each live read is authorized again within `recheck_secs`.
        """
        self._identifier = identifier
        self._roots = roots
        self._public = parse_prefixes(public_read)
        self._public_metrics = public_metrics
        self._recheck_secs = recheck_secs
        self._now = now

    def admit(self, request: Request) -> None:
        """Let a request pass that may do what it wants."""
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
        """Say why a request is refused: nobody is known to ask, or who asks may not."""
        scope = format_scope(Grant(frozenset({verb}), path))
        if request.identity is None:
            return Unauthorized(f"an Authorization header with a Bearer token or API key is needed that grants {scope}")
        return Forbidden(f"{request.identity.subject!r} may not do this: it takes the scope {scope}, or a wider one")

    # What is asked of it later

    def may_delete(self, request: Request, path: bytes) -> bool:
        """Tell whether a request may take away what others have put in a stream."""
        return allows(_grants_of(request), Verb.DELETE, path)

    def readable(self, request: Request) -> tuple[bytes, ...]:
        """Give the prefixes below which a request may read."""
        granted = (grant.prefix for grant in _grants_of(request) if grant.verbs & _READERS)
        return (*self._public, *granted)

    def lasts_secs(self, request: Request) -> float:
        """Tell how long what was decided holds before it is to be renewed. Zero or less: no longer."""
        # Readers that came together need not be looked at together.
        soon = self._recheck_secs * random.uniform(0.5, 1.0)  # noqa: S311 - it spreads work, it guards nothing
        expires_at_secs = request.identity.expires_at_secs if request.identity else None
        return soon if expires_at_secs is None else min(soon, expires_at_secs - self._now())

    def renew(self, request: Request) -> float:
        """Decide again, by the keys and policy of now. A key set that can't be reached takes nothing back.

        A token that is not looked at, because too many bad ones came from its address, is as good as none.
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
