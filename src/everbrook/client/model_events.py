"""How an event of a model or an agent becomes a message of a JSON stream, and how its failure does.

The rule: if a generation did not come to its proper end, the last message says so. A stream that was closed behind any
other message is whole.
"""

from typing import TypeAlias

import msgspec

from everbrook.client.content import has_no_number

FAILED = "error"
CANCELLED = "cancelled"

Message: TypeAlias = bytes | None
"""JSON, or None for an event that is passed on and not recorded."""


def encode_event(event: object) -> bytes:
    """Write an event as JSON: a str, dict, list or number, a dataclass, a model of msgspec or of pydantic."""
    try:
        message = msgspec.json.encode(event, enc_hook=_plain)
    except TypeError as error:
        raise TypeError(_unfit(event, str(error))) from None
    # nan and infinity have become null: only a message with a null can hold them.
    if b"null" in message and has_no_number(msgspec.to_builtins(event, enc_hook=_dumped)):
        raise ValueError(_unfit(event, f"it holds nan or infinity, {event!r:.80}"))
    return message


def _unfit(event: object, cause: str) -> str:
    return (
        f"an event of type {type(event).__name__} cannot be written as JSON ({cause}): give `encode`, a function "
        "that makes bytes of JSON, or a value that can be written, of an event"
    )


def encode_failure(error: BaseException) -> bytes:
    """Write what ended a generation: `{"type": "error", "error": {"type": …, "message": …}}`."""
    return _failure(failure_type(error), failure_text(error))


def encode_failure_discreetly(error: BaseException) -> bytes:
    """The same with nothing of the error but its type, for readers who must not see what is in its message."""
    return _failure(failure_type(error), "the generation was stopped" if _stopped(error) else "the generation failed")


def failure_type(error: BaseException) -> str:
    return CANCELLED if _stopped(error) else type(error).__name__


def failure_text(error: BaseException) -> str:
    return "the generation was stopped before its end" if _stopped(error) else str(error)


def is_failure(message: object) -> bool:
    """Whether a message, as it was read, is the one that says how a generation failed."""
    return isinstance(message, dict) and message.get("type") == FAILED and "error" in message


def _stopped(error: BaseException) -> bool:
    """A caller that leaves, a cancelled task and an interrupt stop a generation: this is not a failure."""
    return not isinstance(error, Exception)


def _failure(kind: str, text: str) -> bytes:
    # Errors may contain file names that are not valid Unicode, which JSON can't hold.
    readable = text.encode("utf-8", "backslashreplace").decode()
    return msgspec.json.encode({"type": FAILED, "error": {"type": kind, "message": readable}})


def _plain(value: object) -> object:
    """Encode pydantic models and errors inside an event."""
    dump = getattr(value, "model_dump_json", None)
    if dump is not None and not isinstance(value, type):
        return msgspec.Raw(dump(by_alias=True).encode())
    if isinstance(value, BaseException):
        return {"type": type(value).__name__, "message": str(value)}
    raise TypeError(f"it holds a {type(value).__name__}")


def _dumped(value: object) -> object:
    """Give the values of a pydantic model before they are JSON: only there can nan hide from `to_builtins`."""
    dump = getattr(value, "model_dump", None)
    return None if dump is None else dump(mode="json", warnings=False)
