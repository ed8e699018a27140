"""Two dialects of events, parsed into the same changes: set a value, remove it, append to it.

The State protocol writes `{type, key, value, headers: {operation}}` and has control messages; session events are
`{key, type, operation, value}`. A message with `headers` is of the first, one without is of the second. Unknown fields
are ignored; a message that fits neither dialect raises `InvalidChange`. `§` are sections of the State protocol.
"""

from collections.abc import Mapping
from reprlib import Repr
from typing import Any, Final, Literal, assert_never

from msgspec import UNSET, Struct

from everbrook.protocol.errors import ProtocolError
from everbrook.protocol.lifetime import parse_time

Json = dict[str, Any]
Setting = Literal["insert", "update", "upsert"]

_CONTROLS: Final = "snapshot-start, snapshot-end or reset"
_brief = Repr()
_brief.maxstring = _brief.maxother = 64


class InvalidChange(ValueError):
    """A message is no change in either dialect, or does not fit the value that it changes."""


class Set(Struct, frozen=True):
    """Set the value of an entity (§4.1.1, §4.1.2).

    `operation` says whether the writer knew that the entity is new, that it exists, or neither. It does not affect the
    state.
    """

    type: str
    key: str
    value: Any
    operation: Setting = "upsert"
    old_value: Any = UNSET
    txid: str | None = None
    timestamp: str | None = None


class Remove(Struct, frozen=True):
    """Remove an entity (§4.1.3)."""

    type: str
    key: str
    old_value: Any = UNSET
    txid: str | None = None
    timestamp: str | None = None


class Append(Struct, frozen=True):
    """Append to the text or the list of an entity. Only session events have this."""

    type: str
    key: str
    value: Any


class SnapshotStart(Struct, frozen=True):
    """The changes up to the end of the snapshot are a complete state (§4.2.1)."""

    offset: str | None = None


class SnapshotEnd(Struct, frozen=True):
    """The snapshot is complete (§4.2.1)."""

    offset: str | None = None


class Reset(Struct, frozen=True):
    """Remove all entities: all changes before are void (§4.2.2)."""

    offset: str | None = None


Change = Set | Remove | Append
Control = SnapshotStart | SnapshotEnd | Reset
StateMessage = Change | Control


def shown(value: object) -> str:
    """Show a value in an error message, bounded."""
    return _brief.repr(value)


def parse_message(message: object) -> StateMessage:
    """Parse a decoded JSON message of either dialect."""
    if not isinstance(message, dict):
        raise InvalidChange(f"a change must be a JSON object, got {shown(message)}")
    if "headers" in message:
        return _parse_state(message, message["headers"])
    if "operation" in message:
        return _parse_session(message)
    raise InvalidChange(f"a change must have headers or an operation, got {shown(message)}")


def _parse_state(message: Json, headers: object) -> StateMessage:
    if not isinstance(headers, dict):
        raise InvalidChange(f"headers must be an object, got {shown(headers)}")
    if "operation" in headers:
        return _parse_change(message, headers)
    if "control" in headers:
        return _parse_control(headers)
    raise InvalidChange(f"headers must have an operation or a control, got {shown(headers)}")


def _parse_change(message: Json, headers: Json) -> Change:
    """Parse a change message (§5.1). `upsert` is not in the specification, but in the official package."""
    entity = _text(message, "type"), _text(message, "key")
    operation = headers["operation"]
    old_value = message.get("old_value", UNSET)
    txid, timestamp = _optional_text(headers, "txid"), _timestamp(headers)
    if operation == "delete":
        return Remove(*entity, old_value, txid, timestamp)
    if operation in ("insert", "update", "upsert"):
        return Set(*entity, _value(message, operation), operation, old_value, txid, timestamp)
    raise InvalidChange(f"headers.operation must be insert, update, upsert or delete, got {shown(operation)}")


def _parse_control(headers: Json) -> Control:
    """Parse a control message (§5.2)."""
    offset = _optional_text(headers, "offset")
    match headers["control"]:
        case "snapshot-start":
            return SnapshotStart(offset)
        case "snapshot-end":
            return SnapshotEnd(offset)
        case "reset":
            return Reset(offset)
        case control:
            raise InvalidChange(f"headers.control must be {_CONTROLS}, got {shown(control)}")


def _parse_session(event: Json) -> Change:
    entity = _text(event, "type"), _text(event, "key")
    match event["operation"]:
        case "set":
            return Set(*entity, _value(event, "set"))
        case "remove":
            return Remove(*entity)
        case "append":
            return Append(*entity, _value(event, "append"))
        case operation:
            raise InvalidChange(f"operation must be set, remove or append, got {shown(operation)}")


def _text(fields: Json, name: str) -> str:
    text = fields.get(name)
    if not isinstance(text, str) or not text:
        got = shown(text) if name in fields else "none"
        raise InvalidChange(f"{name} must be a text that is not empty, got {got}")
    return text


def _optional_text(fields: Json, name: str) -> str | None:
    return _text(fields, name) if name in fields else None


def _timestamp(headers: Json) -> str | None:
    timestamp = _optional_text(headers, "timestamp")
    if timestamp is not None:
        try:
            parse_time(b"headers.timestamp", timestamp.encode(errors="replace"))
        except ProtocolError as error:
            raise InvalidChange(error.detail) from None
    return timestamp


def _value(message: Json, operation: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a message. `null` is a value; a missing one is an error (§4.1)."""
    if "value" not in message:
        raise InvalidChange(f"the operation {operation} needs a value, got {shown(message)}")
    return message["value"]


def format_state(message: StateMessage) -> Json:
    """Format a message in the State protocol, which has no append (§5)."""
    match message:
        case Set(type=type_, key=key, value=value):
            return _change({"type": type_, "key": key, "value": value}, message.operation, message)
        case Remove(type=type_, key=key):
            return _change({"type": type_, "key": key}, "delete", message)
        case Append():
            raise InvalidChange(f"the State protocol has no append; set the whole value of {_named(message)}")
        case SnapshotStart():
            return _control("snapshot-start", message.offset)
        case SnapshotEnd():
            return _control("snapshot-end", message.offset)
        case Reset():
            return _control("reset", message.offset)
        case _:
            assert_never(message)


def _change(written: Json, operation: str, change: Set | Remove) -> Json:
    optional = {"txid": change.txid, "timestamp": change.timestamp}
    if change.old_value is not UNSET:
        written["old_value"] = change.old_value
    return written | {"headers": {"operation": operation} | _present(optional)}


def _control(control: str, offset: str | None) -> Json:
    return {"headers": {"control": control} | _present({"offset": offset})}


def _present(optional: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in optional.items() if value is not None}


def format_session(message: StateMessage) -> Json:
    """Format a change as a session event, which has no transaction, no time and no old value."""
    match message:
        case Set(type=type_, key=key, value=value):
            return {"key": key, "type": type_, "operation": "set", "value": value}
        case Remove(type=type_, key=key):
            return {"key": key, "type": type_, "operation": "remove"}
        case Append(type=type_, key=key, value=value):
            return {"key": key, "type": type_, "operation": "append", "value": value}
        case _:
            raise InvalidChange(f"session events have no control messages, got {message!r}")


def _named(change: Change) -> str:
    return f"{change.type} {shown(change.key)}"
