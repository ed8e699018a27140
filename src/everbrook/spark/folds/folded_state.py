"""The state that a fold builds: the state of the protocol, built faster, because it is private until it is complete.

Plain changes, which are nearly all, are applied as they are decoded. Everything else goes through the rules of
`everbrook.protocol.entities`, which every reader uses, so a fold has the same result as a reader. Pieces that are
appended to a text are joined once, at the end: a text that grows by a word a thousand times is not copied a thousand
times.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from everbrook.protocol.entities import State, parse_snapshot
from everbrook.protocol.json_text import decode_mended, split_array
from everbrook.protocol.state_changes import Append, InvalidChange, StateMessage, parse_message

_SETTING, _SESSION_SETTING = frozenset({"insert", "update", "upsert"}), frozenset({"set"})
_NOTHING = object()

OnInvalid = Callable[[int, InvalidChange], None]
"""Is called for a message that is no change, with its index among those that are applied together, and the reason."""


_Name = Annotated[str, Meta(min_length=1)]


class _Inserted(Struct, forbid_unknown_fields=True):
    operation: Literal["insert"]


class _Entity(Struct, forbid_unknown_fields=True):
    """An entity in a snapshot of `format`."""

    type: _Name
    key: _Name
    value: Any
    headers: _Inserted


_own_snapshot = msgspec.json.Decoder(list[_Entity])


class _Text(list[str]):
    """A text in pieces."""


class FoldedState(State):
    """The current values by type and key."""

    def take(self, messages: list[Any], on_invalid: OnInvalid) -> None:
        """Apply decoded messages in their order."""
        for number, message in enumerate(messages):
            if type(message) is dict and self._take_plain(message):
                continue
            try:
                self.apply(parse_message(message))
            except InvalidChange as error:
                on_invalid(number, error)

    def _take_plain(self, message: dict[str, Any]) -> bool:
        """Apply a plain change. False if the rules of the protocol must apply it."""
        headers = message.get("headers", _NOTHING)
        if headers is _NOTHING:
            operation, setting, removing = message.get("operation"), _SESSION_SETTING, "remove"
        elif type(headers) is dict and len(headers) == 1:
            operation, setting, removing = headers.get("operation"), _SETTING, "delete"
        else:
            return False
        type_, key = message.get("type"), message.get("key")
        if not (type_ and key and type(type_) is str and type(key) is str and type(operation) is str):
            return False
        if operation in setting and "value" in message:
            self._entities.setdefault(type_, {})[key] = message["value"]
            return True
        if operation == removing:
            self._remove(type_, key)
            return True
        return False

    def apply(self, message: StateMessage) -> None:
        """Apply a message by the rules. Appends to texts and lists change these in place."""
        if isinstance(message, Append) and self._grown(message):
            return
        super().apply(message)

    def _grown(self, change: Append) -> bool:
        entities = self._entities.get(change.type, {})
        current, more = entities.get(change.key), change.value
        if isinstance(current, _Text):
            if isinstance(more, str):
                current.append(more)
                return True
            entities[change.key] = "".join(current)  # the rules raise the error
        elif isinstance(current, list):
            current.extend(more if isinstance(more, list) else [more])
            return True
        elif isinstance(current, str) and isinstance(more, str):
            entities[change.key] = _Text((current, more))
            return True
        return False

    def restore(self, data: bytes) -> None:
        """Begin with a snapshot. Raise `InvalidChange` if it is no snapshot of a state."""
        try:
            for entity in _own_snapshot.decode(data):
                self._entities.setdefault(entity.type, {})[entity.key] = entity.value
        except (ValueError, RecursionError):
            self._restore_of_others(data)

    def _restore_of_others(self, data: bytes) -> None:
        """Begin with a snapshot of another form: of the other dialect, or with more headers."""
        try:
            messages = decode_mended(msgspec.json.decode, data)
        except (ValueError, RecursionError):
            messages = None
        if not isinstance(messages, list):
            parse_snapshot(data)  # raises the error
            return
        self.take(messages, _refuse)

    def format(self) -> bytes:
        """Write it as a snapshot, as `format_snapshot` does."""
        for entities in self._entities.values():
            for key, value in entities.items():
                if isinstance(value, _Text):
                    entities[key] = "".join(value)
        inserted = {"operation": "insert"}
        changes = [
            {"type": type_, "key": key, "value": value, "headers": inserted}
            for type_, entities in self._entities.items()
            for key, value in entities.items()
        ]
        return msgspec.json.encode(changes)

    @property
    def count(self) -> int:
        return sum(len(entities) for entities in self._entities.values())


def _refuse(_number: int, error: InvalidChange) -> None:
    raise error


def decode_messages(data: bytes) -> list[Any]:
    """Read messages with commas between them, or one by one if some are invalid: those stay bytes."""
    page = b"[%b]" % data
    try:
        messages: list[Any] = decode_mended(msgspec.json.decode, page)
    except (ValueError, RecursionError):
        return [_decoded(bytes(raw)) for raw in split_array(page)]
    return messages


def _decoded(raw: bytes) -> Any:
    try:
        return decode_mended(msgspec.json.decode, raw)
    except (ValueError, RecursionError):
        return raw[:64]
