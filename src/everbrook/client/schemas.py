"""The classes into which the values of a state are decoded, by entity type (State protocol, §7)."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from everbrook.protocol.state_changes import InvalidChange, shown

Decoder = Callable[[Any], Any]


class Schemas:
    """Decodes the values of entities whose type has a class, and leaves the others as plain JSON values."""

    def __init__(self, types: Mapping[str, Any]) -> None:
        """Take the class of each entity type: a msgspec struct, a dataclass, or a pydantic model."""
        self._decoders = {name: _decoder_of(type_) for name, type_ in types.items()}

    def __call__(self, type_: str, value: Any) -> Any:
        """Decode a value, or raise InvalidChange with the reason."""
        decoder = self._decoders.get(type_)
        if decoder is None:
            return value
        try:
            return decoder(value)
        except (ValueError, RecursionError) as error:
            raise InvalidChange(f"{shown(value)} is no value of type {type_}: {error}") from error


def _decoder_of(type_: Any) -> Decoder:
    if hasattr(type_, "model_validate_json"):
        # Through JSON, because a strict model accepts a date as text in JSON, but not as a Python str.
        return lambda value: type_.model_validate_json(msgspec.json.encode(value))
    return lambda value: msgspec.convert(value, type_)
