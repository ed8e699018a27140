"""Changes as columns: both dialects of events, told apart by message and named alike.

`operation` is insert, update, upsert, delete or append, or what a control message says. What is no change has none,
and all of it as its value, unless such messages are to be errors.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from everbrook.client.tables.json_columns import text_of
from everbrook.protocol.json_text import decode_mended
from everbrook.protocol.state_changes import (
    Append,
    InvalidChange,
    Remove,
    Reset,
    Set,
    SnapshotEnd,
    SnapshotStart,
    StateMessage,
    parse_message,
)
from everbrook.spark.bundle import Bundle

_NAMES = ("type", "key", "operation", "value", "old_value", "headers")


class _Written(Struct):
    """The parts of a change as they are written, so that no number and no order of fields is changed."""

    value: Raw | UnsetType = UNSET
    old_value: Raw | UnsetType = UNSET


_written = msgspec.json.Decoder(_Written)


def change_columns(bundle: Bundle, *, failfast: bool) -> dict[str, list[Any]]:
    """Give the columns of changes, without those that tell of any message."""
    rows = []
    for place, payload in enumerate(bundle.payloads().to_pylist()):
        try:
            rows.append(_row(payload))
        except (InvalidChange, msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            if failfast:
                where = f"{bundle.streams()[place]} at offset {bundle.offsets()[place]}"
                raise ValueError(f"the message in {where} is no change: {error}") from error
            rows.append((None, None, None, payload.decode("utf-8", "replace"), None, None))
    return {name: [row[place] for row in rows] for place, name in enumerate(_NAMES)}


def _row(payload: bytes) -> tuple[Any, ...]:
    message = decode_mended(msgspec.json.decode, payload)
    change = parse_message(message)
    written = decode_mended(_written.decode, payload)
    headers = message.get("headers")
    return (
        getattr(change, "type", None),
        getattr(change, "key", None),
        _operation(change),
        _text(written.value),
        _text(written.old_value),
        None if headers is None else [(name, text_of(value)) for name, value in headers.items()],
    )


def _text(raw: Raw | UnsetType) -> str | None:
    return None if isinstance(raw, UnsetType) else bytes(raw).decode()


def _operation(change: StateMessage) -> str:
    match change:
        case Set(operation=operation):
            return operation
        case Remove():
            return "delete"
        case Append():
            return "append"
        case SnapshotStart():
            return "snapshot-start"
        case SnapshotEnd():
            return "snapshot-end"
        case Reset():
            return "reset"
