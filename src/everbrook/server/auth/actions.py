"""Actions: what a request does, as a verb on a path that can be granted.

The path comes from the same routes that handle the request, decoded and validated. So the path that is authorized is
the path that is handled.
"""

from functools import lru_cache

from msgspec import Struct

from everbrook.protocol.memo import MAX_KEY_BYTES
from everbrook.protocol.path import BUCKETS, REGISTRY, STREAM_ROOT
from everbrook.server.auth.scopes import Access, Rule, Verb
from everbrook.server.exchange import Request
from everbrook.server.methods import TABLE
from everbrook.server.routes import (
    ADMINISTRATION,
    METRICS,
    OF_STREAMS,
    PAGE,
    PROBES,
    Resource,
    Route,
    find_route,
    is_at,
)


class Action(Struct, frozen=True, gc=False):
    """A rule, and the path to which it applies, without a slash at its end.

    An action with `published` publishes a snapshot, which removes the messages before it unless the request keeps them.
    """

    rule: Rule
    path: bytes
    published: bool = False


OPEN = Action(Access.OPEN, b"")


def action_of(request: Request) -> Action:
    """Find the action of a request. A path without a resource is refused as it would be without a policy."""
    method, path = request.method, request.path
    # Clients choose these keys, so long ones are not cached.
    return _remembered(method, path) if len(path) + len(method) <= MAX_KEY_BYTES else find_action(method, path)


def cuts(request: Request, action: Action) -> bool:
    """Tell whether a request removes messages in addition to what its rule says (002 §2.2)."""
    return action.published and request.headers.get(b"stream-snapshot-history") != b"keep"


def find_action(method: bytes, path: bytes) -> Action:
    if method == b"OPTIONS" or path in PROBES or is_at(path, PAGE):
        return OPEN
    if path == METRICS:
        return Action(Verb.ADMIN, METRICS)
    if is_at(path, ADMINISTRATION):
        # The empty path is the whole server, because a backup contains everything.
        return Action(Verb.ADMIN, b"")
    route = find_route(path)
    row = TABLE[route.resource].get(method)
    rule = Verb.ADMIN if row is None else row.rule
    if route.resource is Resource.QUOTA and rule is Verb.ADMIN:
        # A quota limits the administrators of its bucket, so only an administrator of all buckets may change it.
        return Action(rule, BUCKETS)
    return Action(rule, _path_of(route), route.resource is Resource.SNAPSHOT_AT and method == b"PUT")


def _path_of(route: Route) -> bytes:
    """Return the path that a grant must cover: the name of a stream, or the stream root of another resource."""
    if route.resource is Resource.BUCKETS:
        return BUCKETS
    if route.name == REGISTRY:
        # The registry contains the names of all streams, so reading it needs what listing all of them needs.
        return STREAM_ROOT.removesuffix(b"/")
    if route.resource in OF_STREAMS:
        return route.name
    return route.root.removesuffix(b"/")


_remembered = lru_cache(maxsize=8192)(find_action)
