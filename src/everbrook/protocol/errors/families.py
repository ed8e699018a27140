"""Refusals of any request, whatever it is about: families that share a status, and what HTTP itself asks for."""

from everbrook.protocol.errors.refusal import Headers, ProtocolError


class BadRequest(ProtocolError):
    """The request is malformed."""

    status = 400
    code = "bad_request"


class Unauthorized(ProtocolError):
    """The request does not prove that it may do this."""

    status = 401
    code = "UNAUTHORIZED"

    def __init__(self, detail: str, headers: Headers = ()) -> None:
        super().__init__(detail, (*headers, (b"WWW-Authenticate", b"Bearer")))


class Forbidden(ProtocolError):
    """Who asks is known, and may not do this."""

    status = 403
    code = "forbidden"


class NotFound(ProtocolError):
    """Nothing is at this URL."""

    status = 404
    code = "not_found"


class MethodNotAllowed(ProtocolError):
    """The resource does not know this method."""

    status = 405
    code = "method_not_allowed"


class RequestTimeout(ProtocolError):
    """The request arrived too slowly."""

    status = 408
    code = "request_timeout"


class Conflict(ProtocolError):
    """The request contradicts the state of the stream."""

    status = 409
    code = "conflict"


class PreconditionFailed(ProtocolError):
    """What the request was to rest on is not so any more (RFC 9110 §13)."""

    status = 412
    code = "precondition_failed"


class PayloadTooLarge(ProtocolError):
    """The body is larger than the server accepts."""

    status = 413
    code = "payload_too_large"


class UnsupportedCoding(ProtocolError):
    """A body is packed; the server keeps bytes as they are and unpacks none."""

    status = 415
    code = "unsupported_coding"


class TooManyRequests(ProtocolError):
    """Somebody asks more often, sends more, or holds more open than one may."""

    status = 429
    code = "too_many_requests"

    def __init__(self, detail: str, headers: Headers = (), wait_secs: int | None = None) -> None:
        """Say after how many seconds the same would pass, where that is known."""
        wait = () if wait_secs is None else ((b"Retry-After", b"%d" % wait_secs),)
        super().__init__(detail, (*headers, *wait))


class HeadersTooLarge(ProtocolError):
    """The request's header section is larger than the server accepts."""

    status = 431
    code = "headers_too_large"


class Unavailable(ProtocolError):
    """The server cannot do this now."""

    status = 503
    code = "unavailable"
    retry_after_secs = 5


class Overloaded(Unavailable):
    """More is asked of the server than it can do in good time; nothing of the request was done."""

    code = "overloaded"
    retry_after_secs = 1

    def __init__(self, detail: str, headers: Headers = (), wait_secs: int = 1) -> None:
        """Say after how many seconds it makes sense to try again."""
        self.retry_after_secs = wait_secs
        super().__init__(detail, headers)


class MethodNotImplemented(ProtocolError):
    """No resource of the server knows this method (RFC 9110 §9.1)."""

    status = 501
    code = "method_not_implemented"


class VersionNotSupported(ProtocolError):
    """The request is in another version of HTTP."""

    status = 505
    code = "version_not_supported"
