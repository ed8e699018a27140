"""Values and the bytes that carry them, by the content type of a stream.

In a JSON stream each value is a message; a page is an array of them. A lone surrogate in one is read as U+FFFD. In
text and binary streams a page is a range of bytes, and the protocol does not say where messages begin in it.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from functools import cached_property, lru_cache, partial
from math import isfinite
from typing import Any, Generic, TypeVar

import msgspec

from everbrook.client.errors import InvalidAnswer, InvalidMessage
from everbrook.protocol.json_text import decode_mended, mend, split_array

T = TypeVar("T")

JSON = "application/json"
TEXT = "text/plain"
BINARY = "application/octet-stream"
_MAX_INT_DIGITS = 4300


class Kind(Enum):
    """What the values of a stream are."""

    JSON = "json"
    TEXT = "text"
    BINARY = "binary"


@lru_cache(maxsize=256)
def kind_of(content_type: str) -> Kind:
    """Return the kind of a stream from its content type."""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == JSON:
        return Kind.JSON
    if media_type.startswith("text/") or media_type.endswith(("+json", "ndjson", "jsonl")):
        return Kind.TEXT
    return Kind.BINARY


def content_type_for(value: object) -> str:
    """Choose the content type of a stream from its first value."""
    if isinstance(value, bytes | bytearray | memoryview):
        return BINARY
    return TEXT if isinstance(value, str) else JSON


class Codec(Generic[T]):
    """Writes and reads values of one type: `Any`, a msgspec struct, a dataclass, a TypedDict, or a pydantic model."""

    def __init__(self, type_: type[T] | None = None) -> None:
        self._type: Any = Any if type_ is None else type_

    def encode(self, kind: Kind, value: object) -> bytes:
        """Write one message. Bytes are taken as they are, also in a JSON stream, where they are JSON already."""
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        if kind is Kind.JSON:
            return _encode_json(value)
        if isinstance(value, str):
            return value.encode()
        raise TypeError(f"a {kind.value} stream takes str or bytes, got {type(value).__name__}: {value!r:.80}")

    def decode_all(self, data: bytes) -> list[T]:
        """Decode a page of a JSON stream, which is an array of messages."""
        if not data:
            return []
        try:
            values: list[T] = decode_mended(self._decode, data)
        except (ValueError, RecursionError) as error:
            if self._type is Any and (others := _decode_patiently(data)) is not None:
                return others
            raise self._first_misfit(data) or InvalidAnswer(
                f"a page of the stream is not an array of JSON: {error}"
            ) from error
        return values

    def _first_misfit(self, data: bytes) -> InvalidMessage | None:
        """Find the first message that is not of the type, if the page is JSON."""
        before: list[T] = []
        with suppress(ValueError, RecursionError):
            for message in split_array(data):
                try:
                    before += decode_mended(self._decode, b"[%b]" % bytes(message))
                except ValueError as error:
                    return InvalidMessage(f"{bytes(message)[:80]!r} is not of the type asked for: {error}", before)
        return None

    def decode(self, data: bytes) -> T:
        """Read one message."""
        (value,) = self.decode_all(b"[%b]" % data)
        return value

    @cached_property
    def _decode(self) -> Any:
        if hasattr(self._type, "model_validate_json"):
            from pydantic import TypeAdapter

            return TypeAdapter(_list_of(self._type)).validate_json
        return msgspec.json.Decoder(_list_of(self._type), dec_hook=_decode_model).decode


def _list_of(type_: Any) -> Any:
    return list[type_]


def join(kind: Kind, messages: Sequence[bytes]) -> bytes:
    """Write the body that appends messages at once."""
    if kind is Kind.JSON:
        return b"[%b]" % b",".join(messages)
    return messages[0] if len(messages) == 1 else b"".join(messages)


def _decode_patiently(data: bytes) -> list[Any] | None:
    """Decode numbers beyond float and the usual size of int. Returns None if the data is not an array of JSON."""
    try:
        values = json.loads(mend(data), parse_int=_large_int)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, list) else None


def _large_int(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= _MAX_INT_DIGITS else Decimal(digits)


def _encode_json(value: object) -> bytes:
    dump = getattr(value, "model_dump_json", None)
    if dump is not None:
        encoded, plain = str(dump(by_alias=True)).encode(), value.model_dump  # type: ignore[attr-defined]
    else:
        encoded, plain = msgspec.json.encode(value, enc_hook=_encode_model), partial(_plain, value)
    # nan and infinity have become null: only a message with a null can hold them.
    if b"null" in encoded and has_no_number(plain()):
        raise ValueError(f"nan and infinity can't be written as JSON, got {value!r:.80}")
    return encoded


def _plain(value: object) -> object:
    return msgspec.to_builtins(value, enc_hook=_encode_model)


def has_no_number(value: object) -> bool:
    """Return whether a value contains nan or infinity, which JSON does not have."""
    if isinstance(value, float):
        return not isfinite(value)
    if isinstance(value, dict):
        return any(map(has_no_number, value.values()))
    return isinstance(value, list | tuple) and any(map(has_no_number, value))


def _encode_model(value: object) -> object:
    """Encode a pydantic model inside another value, by its aliases, as it is read by them."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"a value of type {type(value).__name__} cannot be written as JSON")
    return dump(mode="json", by_alias=True)


def _decode_model(type_: Any, value: object) -> object:
    """Decode a pydantic model inside another type, by its rules for JSON."""
    validate = getattr(type_, "model_validate_json", None)
    if validate is None:
        raise TypeError(f"a value of type {type_.__name__} cannot be read from JSON")
    return validate(msgspec.json.encode(value))
