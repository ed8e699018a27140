"""Routes: which resource a path leads to, on the base surface and on that of the buckets (002 §1, §2, §3).

On `/ds` a stream's sub-resources follow its id. On the base surface, where a path may end in anything, they are below
`__ds`, and so are the resources of the whole surface.
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
    parse_bucket_id,
    parse_stream_path,
)

_BELOW = b"/%b/" % CONTROL_SEGMENT


class Resource(Enum):
    """What a URL can be of."""

    STREAM = auto()
    SNAPSHOT = auto()
    SNAPSHOT_AT = auto()
    BOOTSTRAP = auto()
    RETENTION = auto()
    LISTING = auto()
    BUCKET = auto()
    BUCKETS = auto()


class Route(Struct, frozen=True, gc=False):
    """A resource: of which stream (`name`) or bucket, and which of its kind (`argument`, as sent)."""

    resource: Resource
    name: bytes = b""
    bucket_id: bytes | None = None
    argument: bytes = b""


_PARTS = {b"snapshot": Resource.SNAPSHOT, b"bootstrap": Resource.BOOTSTRAP}
_PARTS_AT = {b"snapshot": Resource.SNAPSHOT_AT, b"retention": Resource.RETENTION}


def find_route(path: bytes) -> Route:
    """Find what a path leads to, or say that there is nothing."""
    if path.startswith(STREAM_ROOT):
        return _base_route(path)
    if path == BUCKETS:
        return Route(Resource.BUCKETS)
    if path.startswith(BUCKET_ROOT):
        return _bucket_route(path)
    raise nothing_at(path)


def nothing_at(path: bytes) -> NotFound:
    """Say that a path leads nowhere."""
    return NotFound(f"there is nothing at {quoted(path)}; streams are below {STREAM_ROOT.decode()}")


def _base_route(path: bytes) -> Route:
    stream, below, rest = path.rpartition(_BELOW)
    if not below:
        return Route(Resource.STREAM, parse_stream_path(path))
    if stream + b"/" != STREAM_ROOT:
        return _part_route(path, stream, rest)
    if rest == LISTING_SEGMENT:
        return Route(Resource.LISTING)
    raise nothing_at(path)


def _bucket_route(path: bytes) -> Route:
    bucket, *segments = path[len(BUCKET_ROOT) :].split(b"/", 2)
    bucket_id = parse_bucket_id(bucket)
    if not segments:
        return Route(Resource.BUCKET, bucket_id=bucket_id)
    if segments in ([LISTING_SEGMENT], [CONTROL_SEGMENT, LISTING_SEGMENT]):
        return Route(Resource.LISTING, bucket_id=bucket_id)
    stream = b"%b%b/%b" % (BUCKET_ROOT, bucket, segments[0])
    if len(segments) == 1:
        return Route(Resource.STREAM, parse_stream_path(stream))
    return _part_route(path, stream, segments[1])


def _part_route(path: bytes, stream: bytes, rest: bytes) -> Route:
    """Find a part of a stream."""
    name = parse_stream_path(stream)
    kind, separator, argument = rest.partition(b"/")
    resource = (_PARTS_AT if separator else _PARTS).get(kind)
    if resource is None or b"/" in argument:
        raise nothing_at(path)
    return Route(resource, name, argument=argument)
