"""Routes: from a path to its resource, on the base surface and on that of the buckets (002 §1, §2, §3).

On `/ds` the sub-resources of a stream follow its id. On the base surface, where a stream's path may end in anything,
they are below `__ds`, and so are the resources of the whole surface.
"""

from enum import Enum, auto

from msgspec import Struct

from everbrook.protocol.errors import NotFound, quoted
from everbrook.protocol.path import (
    BUCKET_ROOT,
    BUCKETS,
    CONTROL_SEGMENT,
    LISTING_SEGMENT,
    STREAM_ROOT,
    bucket_prefix,
    decode_path,
    parse_bucket_id,
    parse_stream_path,
)

# The server's own resources, beside the two surfaces.
HEALTH, READINESS = b"/healthz", b"/readyz"
PROBES = frozenset({HEALTH, READINESS})
METRICS = b"/metrics"
PAGE = b"/ui"
ADMINISTRATION = b"/admin"
BACKUPS = b"%b/backups" % ADMINISTRATION

_BELOW = b"/%b/" % CONTROL_SEGMENT
_CONTROL_ROOT = b"%b%b/" % (STREAM_ROOT, CONTROL_SEGMENT)


class Resource(Enum):
    """The kinds of resources."""

    STREAM = auto()
    SNAPSHOT = auto()
    SNAPSHOT_AT = auto()
    BOOTSTRAP = auto()
    RETENTION = auto()
    PRODUCERS = auto()
    LISTING = auto()
    JWKS = auto()
    SUBSCRIPTIONS = auto()
    SUBSCRIPTION = auto()
    LINKS = auto()
    LINK = auto()
    CALLBACK = auto()
    CLAIM = auto()
    ACK = auto()
    RELEASE = auto()
    BUCKET = auto()
    BUCKETS = auto()
    QUOTA = auto()


class Route(Struct, frozen=True, gc=False):
    """A resource. `name` is its stream or subscription; `argument` is the rest of the path, as sent."""

    resource: Resource
    name: bytes = b""
    bucket_id: bytes | None = None
    argument: bytes = b""

    @property
    def root(self) -> bytes:
        """The stream root that the resource is of."""
        return STREAM_ROOT if self.bucket_id is None else bucket_prefix(self.bucket_id)


OF_STREAMS = frozenset(
    {
        Resource.STREAM,
        Resource.SNAPSHOT,
        Resource.SNAPSHOT_AT,
        Resource.BOOTSTRAP,
        Resource.RETENTION,
        Resource.PRODUCERS,
    }
)
"""The resources that belong to one stream."""

_ACTIONS = {
    b"streams": Resource.LINKS,
    b"callback": Resource.CALLBACK,
    b"claim": Resource.CLAIM,
    b"ack": Resource.ACK,
    b"release": Resource.RELEASE,
}
_OF_ROOTS = {
    LISTING_SEGMENT: Resource.LISTING,
    b"jwks.json": Resource.JWKS,
    b"subscriptions": Resource.SUBSCRIPTIONS,
    b"quota": Resource.QUOTA,
}
_PARTS = {
    b"snapshot": Resource.SNAPSHOT,
    b"bootstrap": Resource.BOOTSTRAP,
    b"producers": Resource.PRODUCERS,
}
_PARTS_AT = {b"snapshot": Resource.SNAPSHOT_AT, b"retention": Resource.RETENTION}


def is_at(path: bytes, root: bytes) -> bool:
    """Tell whether a path is `root` or lies below it."""
    return path == root or path.startswith(b"%b/" % root)


def find_route(path: bytes) -> Route:
    """Find the resource of a path, or raise `NotFound`."""
    if path.startswith(STREAM_ROOT):
        return _base_route(path)
    if path == BUCKETS:
        return Route(Resource.BUCKETS)
    if path.startswith(BUCKET_ROOT):
        return _bucket_route(path)
    raise nothing_at(path)


def nothing_at(path: bytes) -> NotFound:
    """Return the refusal of a path without a resource."""
    return NotFound(f"there is nothing at {quoted(path)}; streams are below {STREAM_ROOT.decode()}")


def _base_route(path: bytes) -> Route:
    if path.startswith(_CONTROL_ROOT):
        return _control_route(path, path[len(_CONTROL_ROOT) :], None)
    stream, below, rest = path.rpartition(_BELOW)
    if not below:
        return Route(Resource.STREAM, parse_stream_path(path))
    return _part_route(path, stream, rest)


def _bucket_route(path: bytes) -> Route:
    bucket, *segments = path[len(BUCKET_ROOT) :].split(b"/", 2)
    bucket_id = parse_bucket_id(bucket)
    if not segments:
        return Route(Resource.BUCKET, bucket_id=bucket_id)
    if segments == [LISTING_SEGMENT]:
        return Route(Resource.LISTING, bucket_id=bucket_id)
    if segments[0] == CONTROL_SEGMENT and len(segments) > 1:
        return _control_route(path, segments[1], bucket_id)
    stream = b"%b%b/%b" % (BUCKET_ROOT, bucket, segments[0])
    if len(segments) == 1:
        return Route(Resource.STREAM, parse_stream_path(stream))
    return _part_route(path, stream, segments[1])


def _control_route(path: bytes, rest: bytes, bucket_id: bytes | None) -> Route:
    """Find a control resource of a stream root (§6)."""
    kind, _, below = rest.partition(b"/")
    of_root = _OF_ROOTS.get(rest)
    if of_root and (bucket_id is not None or of_root is not Resource.QUOTA):
        return Route(of_root, bucket_id=bucket_id)
    if kind != b"subscriptions" or not below:
        raise nothing_at(path)
    subscription_id, separator, action = below.partition(b"/")
    name = decode_path(subscription_id)
    if not separator:
        return Route(Resource.SUBSCRIPTION, name, bucket_id)
    if action.startswith(b"streams/"):
        return Route(Resource.LINK, name, bucket_id, action.removeprefix(b"streams/"))
    resource = _ACTIONS.get(action)
    if resource is None:
        raise nothing_at(path)
    return Route(resource, name, bucket_id)


def _part_route(path: bytes, stream: bytes, rest: bytes) -> Route:
    """Find a part of a stream."""
    name = parse_stream_path(stream)
    kind, separator, argument = rest.partition(b"/")
    resource = (_PARTS_AT if separator else _PARTS).get(kind)
    if resource is None or b"/" in argument:
        raise nothing_at(path)
    return Route(resource, name, argument=argument)
