"""What the client raises, in the error codes of the suite."""

import re
from typing import Any

from everbrook.client.errors import AppendUncertain, InvalidAnswer, StreamRewound, Unreachable
from everbrook.protocol.errors import (
    BadRequest,
    Conflict,
    InvalidOffset,
    NotFound,
    ProtocolError,
    SequenceGap,
    SequenceRegression,
    StreamClosed,
)

# From the most special to the most general: the first that fits counts.
_CODES: list[tuple[type[Exception], str]] = [
    (NotFound, "NOT_FOUND"),
    (StreamClosed, "STREAM_CLOSED"),
    (SequenceRegression, "SEQUENCE_CONFLICT"),
    (SequenceGap, "SEQUENCE_CONFLICT"),
    (InvalidOffset, "INVALID_OFFSET"),
    (Conflict, "CONFLICT"),
    (ProtocolError, "UNEXPECTED_STATUS"),
    (InvalidAnswer, "PARSE_ERROR"),
    (Unreachable, "NETWORK_ERROR"),
    (AppendUncertain, "NETWORK_ERROR"),
    (StreamRewound, "INVALID_OFFSET"),
    (ValueError, "INVALID_ARGUMENT"),
    (TypeError, "INVALID_ARGUMENT"),
    (NotImplementedError, "NOT_SUPPORTED"),
]

# Where the suite has another name for an option of ours.
_NAMES = {
    "max_attempts": "maxRetries",
    "first_delay_secs": "initialDelayMs",
    "max_delay_secs": "maxDelayMs",
    "max_batch_bytes": "maxBatchBytes",
    "max_batch_items": "maxBatchItems",
}
_OURS = re.compile("|".join(_NAMES))


def error_result(command: str, error: Exception) -> dict[str, Any]:
    """Tell the runner that a command has failed."""
    result = {"type": "error", "success": False, "commandType": command, "errorCode": code_of(error)}
    result["message"] = _OURS.sub(lambda name: _NAMES[name[0]], str(error) or type(error).__name__)
    return result | ({"status": error.status} if isinstance(error, ProtocolError) else {})


def code_of(error: Exception) -> str:
    """Give the suite's code. The reference server names its refusals in words alone, some of which tell the kind."""
    if type(error) is Conflict and "sequence" in error.detail.lower():
        return "SEQUENCE_CONFLICT"
    if type(error) is BadRequest and "offset" in error.detail.lower():
        return "INVALID_OFFSET"
    return next((code for kind, code in _CODES if isinstance(error, kind)), "INTERNAL_ERROR")
