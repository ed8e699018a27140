"""Entities: their current values, folded from changes in the order of the stream (State protocol, §6).

A new value replaces the one before it, the removal of an entity that does not exist does nothing, and a reset empties
the state. Values are replaced and never modified, so a caller may keep one.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from everbrook.protocol.json_text import decode_mended
from everbrook.protocol.state_changes import (
    Append,
    InvalidChange,
    Remove,
    Reset,
    Set,
    StateMessage,
    format_state,
    parse_message,
    shown,
)

# The number of remembered transactions is enough, because a writer waits for a transaction soon after writing it.
MAX_TXIDS = 10_000
_APPENDABLE = (str, list)

Json = Any
Decode = Callable[[str, Json], Any]


def as_it_is(_type: str, value: Json) -> Json:
    """Return a JSON value unchanged."""
    return value


class Entities(Mapping[str, Any]):
    """A live view of the entities of one type, by key. An iteration sees the entities at its beginning."""

    def __init__(self, entities: Mapping[str, dict[str, Any]], type_: str) -> None:
        self._entities = entities
        self._type = type_

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - a JSON value, or what it was decoded to
        return self._now()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._now()))

    def __len__(self) -> int:
        return len(self._now())

    def __repr__(self) -> str:
        return repr(self._now())

    def copy(self) -> dict[str, Any]:
        """Return the present entities as a dictionary that later changes do not affect."""
        return self._now().copy()

    def _now(self) -> dict[str, Any]:
        return self._entities.get(self._type, {})


class State(Mapping[str, Entities]):
    """The current values by type and key. A type without entities is not a key, and looks up as an empty mapping.

    `decode` is called with the type and a JSON value, and returns the value to keep. It raises `InvalidChange` for a
    value that does not fit; then the state is unchanged.
    """

    def __init__(self, decode: Decode = as_it_is) -> None:
        self._decode = decode
        self._entities: dict[str, dict[str, Any]] = {}
        # The JSON values that `decode` has changed: appends and snapshots need them.
        self._written: dict[tuple[str, str], Json] = {}
        self._txids: OrderedDict[str, None] = OrderedDict()

    def __getitem__(self, type_: str) -> Entities:
        return Entities(self._entities, type_)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._entities))

    def __len__(self) -> int:
        return len(self._entities)

    def __contains__(self, type_: object) -> bool:
        return type_ in self._entities

    def __repr__(self) -> str:
        return f"State({self._entities!r})"

    def seen(self, txid: str) -> bool:
        """Return whether a change of a transaction was applied, among the last `MAX_TXIDS` transactions."""
        return txid in self._txids

    def snapshot(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the present state as a mapping that later changes do not affect."""
        kept = {type_: MappingProxyType(entities.copy()) for type_, entities in self._entities.items()}
        return MappingProxyType(kept)

    def written(self) -> Iterator[Set]:
        """Yield the changes that turn an empty state into this one, with the JSON values that were written."""
        for type_, entities in self._entities.items():
            for key, kept in entities.items():
                yield Set(type_, key, self._written.get((type_, key), kept), "insert")

    def apply(self, message: StateMessage) -> None:
        """Apply the next message of the stream. Snapshot boundaries are hints, and change nothing (§4.2.1)."""
        match message:
            case Set(type=type_, key=key, value=value):
                self._keep(type_, key, value)
            case Append(type=type_, key=key):
                self._keep(type_, key, self._appended(message))
            case Remove(type=type_, key=key):
                self._remove(type_, key)
            case Reset():
                self._entities.clear()
                self._written.clear()
        if isinstance(message, Set | Remove) and message.txid is not None:
            self._remember(message.txid)

    def _keep(self, type_: str, key: str, value: Json) -> None:
        kept = self._decode(type_, value)
        self._entities.setdefault(type_, {})[key] = kept
        # A value that `decode` returns unchanged is not stored twice.
        if kept is value:
            self._written.pop((type_, key), None)
        else:
            self._written[type_, key] = value

    def _remove(self, type_: str, key: str) -> None:
        entities = self._entities.get(type_, {})
        entities.pop(key, None)
        self._written.pop((type_, key), None)
        if not entities:
            self._entities.pop(type_, None)

    def _appended(self, change: Append) -> str | list[Json]:
        """Return the entity's value with an appended one. A text extends a text; a list extends a list, any other value
        is added to it.

        For an entity that does not exist, a text or a list is the value, and any other value becomes a list of one.
        """
        more = change.value
        entities = self._entities.get(change.type, {})
        if change.key not in entities:
            return more if isinstance(more, _APPENDABLE) else [more]
        # The JSON value is extended, and not what `decode` made of it.
        current = self._written.get((change.type, change.key), entities[change.key])
        if isinstance(current, list):
            return current + (more if isinstance(more, list) else [more])
        if isinstance(current, str) and isinstance(more, str):
            return current + more
        name = f"{change.type} {shown(change.key)}"
        raise InvalidChange(f"{name} is {shown(current)}, to which {shown(more)} cannot be appended")

    def _remember(self, txid: str) -> None:
        self._txids[txid] = None
        self._txids.move_to_end(txid)
        if len(self._txids) > MAX_TXIDS:
            self._txids.popitem(last=False)


def format_snapshot(state: State) -> bytes:
    """Format a state as a JSON array of changes of the State protocol, one for each entity."""
    return msgspec.json.encode([format_state(change) for change in state.written()])


def parse_snapshot(data: bytes) -> list[StateMessage]:
    """Parse a JSON array of changes, in either dialect. An empty text is an empty state."""
    if not data:
        return []
    try:
        messages = decode_mended(msgspec.json.decode, data)
    except (ValueError, RecursionError) as error:
        raise InvalidChange(f"a snapshot of a state must be a JSON array of changes: {error}") from None
    if not isinstance(messages, list):
        raise InvalidChange(f"a snapshot of a state must be a JSON array of changes, got {shown(messages)}")
    return [parse_message(message) for message in messages]
