"""Actions: what a request wants to do, as a verb on a path that can be granted.

The path is the one that the routes find, decoded and validated: what is judged here is what is then done. A method that
no rule knows needs `admin`, so that what is forgotten is closed rather than open.
"""

from collections.abc import Mapping
from enum import Enum, auto
from functools import lru_cache

from msgspec import Struct

from everbrook.protocol.memo import MAX_KEY_BYTES
from everbrook.protocol.path import BUCKETS, REGISTRY, STREAM_ROOT
from everbrook.server.auth.scopes import Verb
from everbrook.server.exchange import Request
from everbrook.server.routes import ADMINISTRATION, METRICS, PAGE, PROBES, Resource, Route, find_route, is_at

_OF_STREAMS = frozenset(
    {
        Resource.STREAM,
        Resource.SNAPSHOT,
        Resource.SNAPSHOT_AT,
        Resource.BOOTSTRAP,
        Resource.RETENTION,
        Resource.PRODUCERS,
    }
)


class Access(Enum):
    """What a rule asks for where it is not a verb."""

    OPEN = auto()
    """Nothing: it holds no data, or it checks a token of its own."""

    LISTED = auto()
    """To read anything below the path. Only that is told of."""


Rule = Verb | Access

_READ: Mapping[bytes, Rule] = {b"GET": Verb.READ, b"HEAD": Verb.READ}
_LIST: Mapping[bytes, Rule] = {b"GET": Access.LISTED, b"HEAD": Access.LISTED}
_OWN_TOKEN: Mapping[bytes, Rule] = {b"POST": Access.OPEN}
_SUBSCRIBE: Mapping[bytes, Rule] = dict.fromkeys((b"GET", b"HEAD", b"PUT", b"POST", b"DELETE"), Verb.ADMIN)

RULES: Mapping[Resource, Mapping[bytes, Rule]] = {
    Resource.STREAM: {**_READ, b"PUT": Verb.CREATE, b"POST": Verb.APPEND, b"DELETE": Verb.DELETE},
    Resource.SNAPSHOT: _READ,
    # A snapshot says what the stream says. What it takes away needs `delete` as well: see `cuts`.
    Resource.SNAPSHOT_AT: {**_READ, b"PUT": Verb.APPEND, b"DELETE": Verb.DELETE},
    Resource.BOOTSTRAP: _READ,
    Resource.RETENTION: {b"PUT": Verb.DELETE},
    Resource.PRODUCERS: _READ,
    Resource.LISTING: _LIST,
    Resource.JWKS: {b"GET": Access.OPEN, b"HEAD": Access.OPEN},
    Resource.SUBSCRIPTIONS: _SUBSCRIBE,
    Resource.SUBSCRIPTION: _SUBSCRIBE,
    Resource.LINKS: _SUBSCRIBE,
    Resource.LINK: _SUBSCRIBE,
    Resource.CLAIM: _SUBSCRIBE,
    Resource.CALLBACK: _OWN_TOKEN,
    Resource.ACK: _OWN_TOKEN,
    Resource.RELEASE: _OWN_TOKEN,
    Resource.BUCKET: {**_READ, b"PUT": Verb.ADMIN, b"DELETE": Verb.ADMIN},
    Resource.BUCKETS: _LIST,
    Resource.QUOTA: {**_READ, b"PUT": Verb.ADMIN, b"DELETE": Verb.ADMIN},
}
"""What each method of each resource needs. OPTIONS needs nothing anywhere: browsers ask it without credentials."""


class Action(Struct, frozen=True, gc=False):
    """A rule, and the path to which it is applied: without a slash at its end.

    Something is `published` that takes the place of what was there, unless that is to be kept.
    """

    rule: Rule
    path: bytes
    published: bool = False


OPEN = Action(Access.OPEN, b"")


def action_of(request: Request) -> Action:
    """Say what a request wants to do. One that leads nowhere is refused as it would be without any policy."""
    method, path = request.method, request.path
    # Clients choose these keys: a long one is not remembered.
    return _remembered(method, path) if len(path) + len(method) <= MAX_KEY_BYTES else find_action(method, path)


def cuts(request: Request, action: Action) -> bool:
    """Tell whether a request takes from a stream what others have put there, beside what its rule says (002 §2.2)."""
    return action.published and request.headers.get(b"stream-snapshot-history") != b"keep"


def find_action(method: bytes, path: bytes) -> Action:
    """Say what a method on a path is."""
    if method == b"OPTIONS" or path in PROBES or is_at(path, PAGE):
        return OPEN
    if path == METRICS:
        return Action(Verb.ADMIN, METRICS)
    if is_at(path, ADMINISTRATION):
        # It is of the whole server, and a backup holds all of it.
        return Action(Verb.ADMIN, b"")
    route = find_route(path)
    rule = RULES[route.resource].get(method, Verb.ADMIN)
    if route.resource is Resource.QUOTA and rule is Verb.ADMIN:
        # It bounds those who administer the bucket: only who administers all of them may move it.
        return Action(rule, BUCKETS)
    return Action(rule, _path_of(route), route.resource is Resource.SNAPSHOT_AT and method == b"PUT")


def _path_of(route: Route) -> bytes:
    """Give the path that a grant must cover: a stream's name, or the root that a resource is of."""
    if route.resource is Resource.BUCKETS:
        return BUCKETS
    if route.name == REGISTRY:
        # It tells the names of all streams, as a listing of all of them does.
        return STREAM_ROOT.removesuffix(b"/")
    if route.resource in _OF_STREAMS:
        return route.name
    return route.root.removesuffix(b"/")


_remembered = lru_cache(maxsize=8192)(find_action)
