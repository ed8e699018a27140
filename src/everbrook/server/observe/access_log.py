"""The access log: a record for each answer that the settings ask for, by the logger `everbrook.access`."""

import logging
from collections.abc import Callable

from everbrook.server.exchange import Request, Response
from everbrook.server.observe.operations import LIVE, operation_of
from everbrook.server.observe.redaction import loggable_target
from everbrook.server.observe.request_ids import request_id
from everbrook.settings import RequestLog

logger = logging.getLogger("everbrook.access")

FAILED = 500
REFUSED = 400


class AccessLog:
    """Tells of answers: which requests they were to, how they went, and how long they took."""

    def __init__(self, which: RequestLog, slow_secs: float, address_of: Callable[[Request], str]) -> None:
        self._which = which
        self._slow_secs = slow_secs
        self._address_of = address_of

    def answered(self, request: Request, response: Response, secs: float) -> None:
        """Log an answer, if it is one of those that are asked for. A streamed one is logged when it begins."""
        operation = operation_of(request)
        if not self._wanted(operation, response.status, secs):
            return
        level = logging.WARNING if response.status >= FAILED else logging.INFO
        method, target = request.method.decode("ascii", "replace"), loggable_target(request.path, request.query)
        extra: dict[str, object] = {
            "request_id": request_id(request),
            "operation": operation,
            "method": method,
            "target": target,
            "status": response.status,
            "duration_ms": round(secs * 1000, 3),
            "request_bytes": len(request.body),
            "response_bytes": len(response.body),
            "address": self._address_of(request),
        }
        if request.identity is not None:
            extra["identity"] = request.identity.subject
        if response.status >= REFUSED:
            extra["code"] = response.code
        words = "%s %s %d in %.1f ms"
        logger.log(level, words, method or "-", target or "-", response.status, secs * 1000, extra=extra)

    def _wanted(self, operation: str, status: int, secs: float) -> bool:
        if self._which is RequestLog.ALL or status >= FAILED:
            return True
        return self._which is RequestLog.SLOW and secs >= self._slow_secs and operation not in LIVE
