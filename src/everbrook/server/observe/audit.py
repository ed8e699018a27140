"""The audit log: one record for each creation, deletion, reload and refusal, with the identity that caused it.

A record is written when the response is sent, and so after its change is durable. Any client can cause refusals, so
their number per second is limited; a further record counts those that were omitted.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from time import monotonic
from typing import Protocol

from everbrook.server.exchange import Request, Response
from everbrook.server.methods import AUDITED, operation_of
from everbrook.server.observe.access_log import printable, request_id
from everbrook.settings import AuditSettings, AuditTarget, SettingsError

logger = logging.getLogger("everbrook.audit")

UNAUTHORIZED, FORBIDDEN = 401, 403
SUCCEEDED = range(200, 300)
# The status of a creation that changed nothing, because the resource exists already.
UNCHANGED = 200
FAILED = 500
TOLD_ELSEWHERE = {"action", "outcome", "request_id"}
"""Fields that the line of a log already has: it begins with the action, and ends with the id of the request."""

Fields = dict[str, object]
AddressOf = Callable[[Request], str]


class Sink(Protocol):
    """Where records are written."""

    def write(self, record: Fields) -> None:
        """Write one record."""

    def reopen(self) -> None:
        """Open the file again by its name, because the old one may have been moved away."""

    def close(self) -> None:
        """Close the file."""


class LogSink:
    """Writes records to the log of the server."""

    def write(self, record: Fields) -> None:
        logger.info("%s: %s%s", record["action"], record["outcome"], _more(record), extra=record)

    def reopen(self) -> None:
        """There is nothing to open."""

    def close(self) -> None:
        """There is nothing to close."""


class FileSink:
    """Writes records to a file, one JSON object per line. A full file is rotated."""

    def __init__(self, settings: AuditSettings) -> None:
        """Open the file, or raise OSError."""
        self._file = RotatingFileHandler(
            Path(settings.path), maxBytes=settings.max_file_bytes, backupCount=settings.keep_files, encoding="utf-8"
        )

    def write(self, record: Fields) -> None:
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = json.dumps({"time": time, **record}, default=str)
        # A full disk must not fail a request: the handler reports it on standard error.
        self._file.handle(logging.makeLogRecord({"msg": "%s", "args": (line,), "levelno": logging.INFO}))

    def reopen(self) -> None:
        """The next record opens the file again, by its name."""
        self._file.acquire()
        try:
            if self._file.stream:
                self._file.stream.close()
            self._file.stream = self._file._open()  # noqa: SLF001 - logging has no public method for this
        finally:
            self._file.release()

    def close(self) -> None:
        self._file.close()


class Audit:
    """Decides what is recorded."""

    def __init__(
        self, sink: Sink | None, max_refusals_per_sec: int, address_of: AddressOf, window_secs: float = 1.0
    ) -> None:
        """Write to a sink, or nowhere. Refusals are counted within windows of `window_secs`."""
        self._sink = sink
        self._window_secs = window_secs
        self._max_refusals = max_refusals_per_sec
        self._address_of = address_of
        self._window_began = 0.0
        self._refusals = 0
        self._left_out = 0

    def note(self, action: str, *, outcome: str = "ok", detail: str = "") -> None:
        """Record an event that no request caused, such as a reload of keys. `detail` must not contain a secret."""
        if self._sink:
            self._sink.write({"action": action, "outcome": outcome, **({"detail": detail} if detail else {})})

    @property
    def writes(self) -> bool:
        """Whether the audit log is on."""
        return self._sink is not None

    def answered(self, request: Request, response: Response, _secs: float) -> None:
        """Record a response, if its operation is audited or it is a refusal."""
        status = response.status
        if status in {UNAUTHORIZED, FORBIDDEN}:
            self._refused(request, response)
            return
        operation = operation_of(request)
        action = AUDITED.get(operation)
        if action is None or (operation.endswith("create") and status == UNCHANGED):
            return
        if status in SUCCEEDED:
            self._write(request, response, action, "ok")
        elif status >= FAILED:
            self._write(request, response, action, "failed")

    def _refused(self, request: Request, response: Response) -> None:
        now = monotonic()
        # The count of the last window comes before the records of this one.
        if now - self._window_began >= self._window_secs:
            self._tell_left_out()
            self._window_began, self._refusals = now, 0
        self._refusals += 1
        if self._refusals > self._max_refusals:
            self._leave_out()
        else:
            self._write(request, response, "refused", response.code)

    def _leave_out(self) -> None:
        """Count an omitted refusal. A timer writes the count, because no other refusal may follow."""
        if not self._left_out:
            asyncio.get_running_loop().call_later(self._window_secs, self._tell_left_out)
        self._left_out += 1

    def _tell_left_out(self) -> None:
        left_out, self._left_out = self._left_out, 0
        if left_out and self._sink:
            self._sink.write({"action": "refused", "outcome": "left_out", "count": left_out})

    def _write(self, request: Request, response: Response, action: str, outcome: str) -> None:
        if self._sink is None:
            return
        identity = request.identity
        self._sink.write(
            {
                "action": action,
                "outcome": outcome,
                "identity": identity.subject if identity else None,
                "identity_source": identity.source if identity else None,
                "address": self._address_of(request),
                "method": request.method.decode("ascii", "replace"),
                "path": printable(request.path),
                "status": response.status,
                "request_id": request_id(request),
            }
        )

    def reopen(self) -> None:
        """Continue in a new file, if the old one was moved away."""
        if self._sink:
            self._sink.reopen()

    def close(self) -> None:
        """Write the count of omitted refusals, and close the file."""
        self._tell_left_out()
        if self._sink:
            self._sink.close()


def _more(record: Fields) -> str:
    """Write the other fields. Values are quoted, so that no value of a client can break or extend the line."""
    return "".join(f" {name}={value!r}" for name, value in record.items() if name not in TOLD_ELSEWHERE)


def audit_of(settings: AuditSettings, address_of: AddressOf) -> Audit:
    """Make the audit log of the settings. Raise `SettingsError` if its file can't be written."""
    return Audit(_sink_of(settings), settings.max_refusals_per_sec, address_of)


def _sink_of(settings: AuditSettings) -> Sink | None:
    match settings.to:
        case AuditTarget.OFF:
            return None
        case AuditTarget.LOG:
            return LogSink()
        case AuditTarget.FILE:
            try:
                return FileSink(settings)
            except OSError as error:
                raise SettingsError("audit.path", f"{settings.path} can't be written to: {error.strerror}") from error
