"""Messages of the State protocol, to append to a JSON stream.

    stream.append(state_events.insert("user", "1", {"name": "Ada"}))

Each is checked by the rules of readers, so an empty key is refused before it is appended.
"""

from datetime import datetime

from msgspec import UNSET

from everbrook.protocol.state_changes import (
    Json,
    Remove,
    Reset,
    Set,
    SnapshotEnd,
    SnapshotStart,
    format_state,
    parse_message,
)

__all__ = ["delete", "insert", "reset", "snapshot_end", "snapshot_start", "update", "upsert"]

Time = str | datetime | None


def insert(type_: str, key: str, value: object, /, *, txid: str | None = None, timestamp: Time = None) -> Json:
    """Write that an entity is new. A reader may wait for the `txid`."""
    return _checked(Set(type_, key, value, "insert", txid=txid, timestamp=_text(timestamp)))


def update(
    type_: str,
    key: str,
    value: object,
    /,
    *,
    old_value: object = UNSET,
    txid: str | None = None,
    timestamp: Time = None,
) -> Json:
    """Write the new value of an entity, whole."""
    return _checked(Set(type_, key, value, "update", old_value, txid, _text(timestamp)))


def upsert(type_: str, key: str, value: object, /, *, txid: str | None = None, timestamp: Time = None) -> Json:
    """Write the value of an entity, new or not. The official packages know this operation, the text does not."""
    return _checked(Set(type_, key, value, "upsert", txid=txid, timestamp=_text(timestamp)))


def delete(
    type_: str, key: str, /, *, old_value: object = UNSET, txid: str | None = None, timestamp: Time = None
) -> Json:
    """Write that an entity was removed."""
    return _checked(Remove(type_, key, old_value, txid, _text(timestamp)))


def reset(offset: str | None = None) -> Json:
    """Write that readers drop all entities."""
    return _checked(Reset(offset))


def snapshot_start(offset: str | None = None) -> Json:
    """Write that a complete state follows."""
    return _checked(SnapshotStart(offset))


def snapshot_end(offset: str | None = None) -> Json:
    """Write that the state is complete."""
    return _checked(SnapshotEnd(offset))


def _text(timestamp: Time) -> str | None:
    return timestamp.isoformat() if isinstance(timestamp, datetime) else timestamp


def _checked(message: Set | Remove | Reset | SnapshotStart | SnapshotEnd) -> Json:
    written = format_state(message)
    parse_message(written)
    return written
