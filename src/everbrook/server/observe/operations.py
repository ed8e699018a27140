"""Operations: what a request wanted, in a few words that never name a stream, so that they can be labels."""

import re

from everbrook.protocol.errors import ProtocolError
from everbrook.protocol.path import CONTROL_SEGMENT, STREAM_ROOT
from everbrook.server.exchange import Request
from everbrook.server.routes import BACKUPS, HEALTH, METRICS, READINESS, Resource, find_route

OTHER = "other"
PREFLIGHT = "preflight"
LIVE = {"long_poll", "sse"}
"""Operations that wait by their nature."""

METHODS = {b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS"}

_STREAM = {
    b"POST": "append",
    b"GET": "read",
    b"HEAD": "head",
    b"PUT": "create",
    b"DELETE": "delete",
    b"OPTIONS": PREFLIGHT,
}
_LIVE = re.compile(rb"(?:\A|&)live=(sse|long-poll)(?:&|\Z)")
_LIVE_OPERATIONS = {b"sse": "sse", b"long-poll": "long_poll"}
_FIXED = {HEALTH: "probe", READINESS: "probe", METRICS: "metrics", BACKUPS: "backup"}
_RESOURCES = {
    Resource.SNAPSHOT: "snapshot_read",
    Resource.SNAPSHOT_AT: "snapshot_read",
    Resource.BOOTSTRAP: "bootstrap",
    Resource.RETENTION: "retention",
    Resource.PRODUCERS: "producers",
    Resource.QUOTA: "quota",
    Resource.LISTING: "listing",
    Resource.BUCKETS: "listing",
    Resource.BUCKET: "bucket",
    Resource.JWKS: "jwks",
    Resource.SUBSCRIPTIONS: "listing",
    Resource.SUBSCRIPTION: "subscription",
    Resource.LINKS: "subscription",
    Resource.LINK: "subscription",
    Resource.CALLBACK: "callback",
    Resource.CLAIM: "claim",
    Resource.ACK: "ack",
    Resource.RELEASE: "release",
}
_CHANGES = {
    ("snapshot_read", b"PUT"): "snapshot_publish",
    ("snapshot_read", b"DELETE"): "snapshot_delete",
    ("quota", b"PUT"): "quota_set",
    ("quota", b"DELETE"): "quota_unset",
    ("bucket", b"PUT"): "bucket_create",
    ("bucket", b"DELETE"): "bucket_delete",
    ("subscription", b"PUT"): "subscription_create",
    ("subscription", b"DELETE"): "subscription_delete",
}

OPERATIONS = sorted(
    {*_STREAM.values(), *LIVE, *_FIXED.values(), *_RESOURCES.values(), *_CHANGES.values(), PREFLIGHT, OTHER}
)
"""All of them: there are no others, whatever is asked."""


def operation_of(request: Request) -> str:
    """Say what was done for a request that was answered."""
    return request.operation or _STREAM.get(request.method, OTHER)


def operation_elsewhere(request: Request) -> str:
    """Say what a request is for whose path may be none of a stream, before its route is known."""
    return _FIXED.get(request.path, PREFLIGHT if request.method == b"OPTIONS" else OTHER)


def operation_at(resource: Resource, method: bytes) -> str:
    """Say what a method does to a resource; nothing for a stream, where the method alone says it."""
    if resource is Resource.STREAM:
        return ""
    operation = _RESOURCES[resource]
    return _CHANGES.get((operation, method), operation)


def find_operation(request: Request) -> str:
    """Say what a request was for that was refused before anything was done for it."""
    path = request.path
    if path.startswith(STREAM_ROOT) and CONTROL_SEGMENT not in path:
        return _on_stream(request)
    if (operation := operation_elsewhere(request)) != OTHER:
        return operation
    try:
        return operation_at(find_route(path).resource, request.method) or _on_stream(request)
    except ProtocolError:
        return OTHER


def follows(request: Request) -> bool:
    """Tell whether a request is a read of a stream that waits for more."""
    return bool(_LIVE.search(request.query)) and find_operation(request) in LIVE


def _on_stream(request: Request) -> str:
    if request.method == b"GET" and (live := _LIVE.search(request.query)):
        return _LIVE_OPERATIONS[live[1]]
    return _STREAM.get(request.method, OTHER)
