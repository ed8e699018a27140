"""Encodes events of a model or an agent, and errors of a generation, as messages of a JSON stream.

The rule: if a generation failed or was stopped, the last message says so. If a closed stream has another last message,
the generation is complete.
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
        f"an event of type {type(event).__name__} cannot be written as JSON ({cause}): pass `encode`, a function "
        "that returns an event as bytes of JSON, or as a value that can be written"
    )


def encode_failure(error: BaseException) -> bytes:
    """Encode the error of a generation: `{"type": "error", "error": {"type": …, "message": …}}`."""
    return _failure(failure_type(error), failure_text(error))


def encode_failure_discreetly(error: BaseException) -> bytes:
    """Encode the error with its type and without its text, for readers that must not see the text."""
    return _failure(failure_type(error), "the generation was stopped" if _stopped(error) else "the generation failed")


def failure_type(error: BaseException) -> str:
    return CANCELLED if _stopped(error) else type(error).__name__


def failure_text(error: BaseException) -> str:
    return "the generation was stopped before its end" if _stopped(error) else str(error)


def is_failure(message: object) -> bool:
    """Return whether a decoded message is the one of `encode_failure`."""
    return isinstance(message, dict) and message.get("type") == FAILED and "error" in message


def _stopped(error: BaseException) -> bool:
    """A caller that leaves, a cancelled task and an interrupt raise no `Exception`: they stop, and do not fail."""
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
    """Return the fields of a pydantic model, in which `has_no_number` looks for nan: its JSON has null instead."""
    dump = getattr(value, "model_dump", None)
    return None if dump is None else dump(mode="json", warnings=False)
