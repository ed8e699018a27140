"""Methods: what each one does to each resource, in one table.

A row has the handler of a request, the right that it needs, its name in metrics and logs, and its action in the audit
log. A method without a row needs `admin`, so that a forgotten row closes a resource instead of opening it. OPTIONS
needs no right anywhere, because browsers send it without credentials.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from everbrook.protocol.errors import (
    MethodNotAllowed,
    MethodNotImplemented,
    ProtocolError,
    UnsupportedCoding,
    quoted,
)
from everbrook.protocol.path import CONTROL_SEGMENT, STREAM_ROOT
from everbrook.protocol.subscriptions.config import MAX_STREAMS
from everbrook.protocol.subscriptions.rules import MAX_WAKE_STREAMS
from everbrook.server.auth.scopes import Access, Rule, Verb
from everbrook.server.exchange import Request
from everbrook.server.routes import BACKUPS, HEALTH, METRICS, READINESS, Resource, find_route

READING = frozenset({b"GET", b"HEAD"})
METHODS = {b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS"}
"""All methods that resources have."""

_OF_HTTP = METHODS | {b"PATCH", b"TRACE", b"CONNECT"}


class Method(Struct, frozen=True):
    """What a method does to a resource.

    `handler` names the function of the resource's class. `operation` is the label in metrics and logs: one of a few
    words, never a name that a client chose. `audit` is the action that is recorded when the method has succeeded.
    """

    handler: str
    rule: Rule
    operation: str
    audit: str = ""


def _read(handler: str, operation: str, rule: Rule = Verb.READ) -> dict[bytes, Method]:
    return dict.fromkeys((b"GET", b"HEAD"), Method(handler, rule, operation))


TABLE: Mapping[Resource, Mapping[bytes, Method]] = {
    Resource.STREAM: {
        b"POST": Method("append", Verb.APPEND, "append"),
        b"GET": Method("read", Verb.READ, "read"),
        b"HEAD": Method("describe", Verb.READ, "head"),
        b"PUT": Method("create", Verb.CREATE, "create", "stream_created"),
        b"DELETE": Method("delete", Verb.DELETE, "delete", "stream_deleted"),
    },
    Resource.SNAPSHOT: _read("latest", "snapshot_read"),
    Resource.SNAPSHOT_AT: {
        **_read("read", "snapshot_read"),
        # A snapshot repeats what the stream contains. If it removes messages, it needs `delete` as well: see `cuts`.
        b"PUT": Method("publish", Verb.APPEND, "snapshot_publish", "snapshot_published"),
        b"DELETE": Method("delete", Verb.DELETE, "snapshot_delete", "snapshot_deleted"),
    },
    Resource.BOOTSTRAP: _read("read", "bootstrap"),
    Resource.RETENTION: {b"PUT": Method("retain", Verb.DELETE, "retention", "retention_cut")},
    Resource.PRODUCERS: _read("read", "producers"),
    Resource.LISTING: _read("read", "listing", Access.LISTED),
    Resource.JWKS: _read("keys", "jwks", Access.OPEN),
    Resource.SUBSCRIPTIONS: _read("list_all", "listing", Verb.ADMIN),
    Resource.SUBSCRIPTION: {
        b"PUT": Method("create", Verb.ADMIN, "subscription_create", "subscription_created"),
        **_read("read", "subscription", Verb.ADMIN),
        b"DELETE": Method("delete", Verb.ADMIN, "subscription_delete", "subscription_deleted"),
    },
    Resource.LINKS: {b"POST": Method("link", Verb.ADMIN, "subscription")},
    Resource.LINK: {b"DELETE": Method("unlink", Verb.ADMIN, "subscription")},
    Resource.CLAIM: {b"POST": Method("claim", Verb.ADMIN, "claim")},
    # These check a token of their own.
    Resource.CALLBACK: {b"POST": Method("callback", Access.OPEN, "callback")},
    Resource.ACK: {b"POST": Method("ack", Access.OPEN, "ack")},
    Resource.RELEASE: {b"POST": Method("release", Access.OPEN, "release")},
    Resource.BUCKET: {
        **_read("describe", "bucket"),
        b"PUT": Method("create", Verb.ADMIN, "bucket_create", "bucket_created"),
        b"DELETE": Method("delete", Verb.ADMIN, "bucket_delete", "bucket_deleted"),
    },
    Resource.BUCKETS: _read("list_all", "listing", Access.LISTED),
    Resource.QUOTA: {
        **_read("describe", "quota"),
        b"PUT": Method("set", Verb.ADMIN, "quota_set", "quota_set"),
        b"DELETE": Method("unset", Verb.ADMIN, "quota_unset", "quota_unset"),
    },
}

REPORTS = frozenset({Resource.CALLBACK, Resource.ACK, Resource.RELEASE})
"""The resources for reports of workers. A report needs the token of its wake, whatever the policy says."""

CONTROL = REPORTS | {
    Resource.JWKS,
    Resource.SUBSCRIPTIONS,
    Resource.SUBSCRIPTION,
    Resource.LINKS,
    Resource.LINK,
    Resource.CLAIM,
}
"""The resources of subscriptions (§6, §7)."""


def handlers_of(owner: object, resource: Resource) -> dict[bytes, Any]:
    """Return the functions of an object that handle the methods of its resource."""
    return {method: getattr(owner, row.handler) for method, row in TABLE[resource].items()}


def refuse_method(method: bytes, allowed: bytes) -> ProtocolError:
    """Return the refusal of a method (RFC 9110 §9.1): 405 with the allowed ones, or 501 if HTTP does not define it."""
    if method not in _OF_HTTP:
        return MethodNotImplemented(f"this server does not know the method {quoted(method)}")
    return MethodNotAllowed(f"this resource has no method {quoted(method)}", ((b"Allow", allowed),))


# Bodies

SUBSCRIPTIONS = b"/%b/subscriptions/" % CONTROL_SEGMENT
"""The path of every request about one subscription contains this."""

STREAM_BYTES = 512
"""The share of one stream in a body: the longest path and an offset fit, with their JSON around them."""

MAX_REPORT_BYTES = MAX_WAKE_STREAMS * STREAM_BYTES
"""A callback or an ack may name every stream of its wake. A worker that needs more bytes acks in parts (§7.2)."""

MAX_CONFIG_BYTES = MAX_STREAMS * STREAM_BYTES
"""The number of streams with which a subscription may be created, or to which it may be linked, in one request."""


def max_body_bytes(path: bytes, max_append_bytes: int) -> int:
    """Return the largest body that a request may have, if it is buffered.

    The policy does not protect reports: any client may send one, and its token is checked. So reports are small.
    """
    if SUBSCRIPTIONS not in path:
        return max_append_bytes
    try:
        short = find_route(path).resource in REPORTS | {Resource.CLAIM}
    except ProtocolError:
        short = False
    return min(MAX_REPORT_BYTES if short else MAX_CONFIG_BYTES, max_append_bytes)


def require_unpacked(headers: dict[bytes, bytes]) -> None:
    """Refuse a body with a content coding: readers get the stored bytes without that header."""
    coding = headers.get(b"content-encoding")
    if coding is not None and coding.lower() != b"identity":
        raise UnsupportedCoding(f"Content-Encoding is not supported: send the body uncompressed, got {quoted(coding)}")


# Operations

OTHER = "other"
PREFLIGHT = "preflight"
LIVE = {"long_poll", "sse"}
"""The operations of live reads. Their duration is no sign of a slow server."""

_STREAM = {method: row.operation for method, row in TABLE[Resource.STREAM].items()} | {b"OPTIONS": PREFLIGHT}
_LIVE = re.compile(rb"(?:\A|&)live=(sse|long-poll)(?:&|\Z)")
_LIVE_OPERATIONS = {b"sse": "sse", b"long-poll": "long_poll"}
_FIXED = {HEALTH: "probe", READINESS: "probe", METRICS: "metrics", BACKUPS: "backup"}
_ROWS = [row for rows in TABLE.values() for row in rows.values()]

OPERATIONS = sorted({*LIVE, *_FIXED.values(), *(row.operation for row in _ROWS), PREFLIGHT, OTHER})
"""All operations. Metrics have no other label, whatever clients send."""

AUDITED = {row.operation: row.audit for row in _ROWS if row.audit} | {"backup": "backup_begun"}
"""The actions of the audit log, by operation."""


def operation_of(request: Request) -> str:
    """Return the operation of a request that has a response."""
    return request.operation or _STREAM.get(request.method, OTHER)


def operation_elsewhere(request: Request) -> str:
    """Return the operation of a request that may not be for a stream, before its route is known."""
    return _FIXED.get(request.path, PREFLIGHT if request.method == b"OPTIONS" else OTHER)


def operation_at(resource: Resource, method: bytes) -> str:
    """Return the operation of a method on a resource. It is empty for a stream, where the method alone names it."""
    if resource is Resource.STREAM:
        return ""
    rows = TABLE[resource]
    # A method that the resource does not have counts as a GET, or as the first method that it has.
    row = rows.get(method) or rows.get(b"GET") or next(iter(rows.values()))
    return row.operation


def find_operation(request: Request) -> str:
    """Return the operation of a request that was refused before it was handled."""
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
    """Tell whether a request is a live read."""
    return bool(_LIVE.search(request.query)) and find_operation(request) in LIVE


def _on_stream(request: Request) -> str:
    if request.method == b"GET" and (live := _LIVE.search(request.query)):
        return _LIVE_OPERATIONS[live[1]]
    return _STREAM.get(request.method, OTHER)
