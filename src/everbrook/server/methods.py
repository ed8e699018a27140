"""Methods: which ones HTTP has, and how a resource refuses one that it does not know (RFC 9110 §9.1)."""

from everbrook.protocol.errors import MethodNotAllowed, MethodNotImplemented, ProtocolError, quoted

READING = frozenset({b"GET", b"HEAD"})

_OF_HTTP = READING | {b"OPTIONS", b"PUT", b"POST", b"DELETE", b"PATCH", b"TRACE", b"CONNECT"}


def refuse_method(method: bytes, allowed: bytes) -> ProtocolError:
    """Say that a resource does not know a method: 405 with those that it knows, or 501 for one that is not of HTTP."""
    if method not in _OF_HTTP:
        return MethodNotImplemented(f"this server does not know the method {quoted(method)}")
    return MethodNotAllowed(f"this resource does not know {quoted(method)}", ((b"Allow", allowed),))
