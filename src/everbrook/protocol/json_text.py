r"""JSON text that a decoder refuses or reads in its own way: lone surrogates, and deep nesting.

JavaScript writes `"\ud83d"` when a chunk ends inside an emoji. The grammar of JSON allows it, msgspec refuses it (gap
G-03). So a text is given to msgspec first, and only one that it refuses is looked at again: other texts cost nothing
more. Stored bytes keep their escapes. Decoders give U+FFFD in their place: a lone surrogate can be neither written
in UTF-8 nor compared.

A decoder also refuses what is nested deeper than the interpreter's own limit of recursion, and that limit changes from
version to version: below 1,000 levels in CPython 3.11, thousands in 3.13. What one server takes, a client on any
version must be able to read, so the limit here is a number of our own.
"""

import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeVar

from msgspec import DecodeError, Raw
from msgspec.json import Decoder

T = TypeVar("T")

WHITESPACE = b" \t\n\r"

_value = Decoder(Raw)
_array = Decoder(list[Raw])

_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE = re.compile(rb"%b(?!%b)|(?<!%b)%b" % (_HIGH, _LOW, _HIGH, _LOW))
_REPLACEMENT = rb"\\ufffd"
_BACKSLASH, _NEITHER = rb"\\", b"\0\0"
"""An escaped backslash, behind which `u` begins no escape, and what JSON text can't hold."""


def may_have_lone(text: bytes) -> bool:
    """Return whether a text has the escape of a surrogate at all."""
    return rb"\ud" in text or rb"\uD" in text


def hide(text: bytes) -> bytes:
    """Return a text of the same length that is JSON if and only if the given one is, and has no surrogates.

    The values differ; where they begin and end does not. Behind an escaped backslash `u` and what follows are plain
    text, which these two replacements leave plain. They cost less than a search of lone ones.
    """
    return text.replace(rb"\ud", rb"\u0").replace(rb"\uD", rb"\u0")


def mend(text: bytes) -> bytes:
    """Write U+FFFD in place of each lone surrogate, which is as long. Other bytes stay."""
    if b"\0" in text:
        return text
    return _LONE.sub(_REPLACEMENT, text.replace(_BACKSLASH, _NEITHER)).replace(_NEITHER, _BACKSLASH)


def split_array(array: bytes) -> list[Raw]:
    """Split a JSON array into its values, byte for byte."""
    try:
        return _array.decode(array)
    except DecodeError:
        if not may_have_lone(array):
            raise
        return split_hidden(array)


def split_hidden(array: bytes) -> list[Raw]:
    """Split a JSON array that msgspec has refused, by the places of the values in its hidden form.

    Only blanks and a comma lie between two values, and no value begins with either: the first match is the right one.
    """
    hidden = hide(array)
    values, at = [], hidden.find(b"[") + 1
    for value in _array.decode(hidden):
        at = hidden.index(bytes(value), at)
        values.append(Raw(array[at : at + len(value)]))
        at += len(value)
    return values


def cut_hidden(text: bytes) -> Raw:
    """Take the blanks off one JSON value that msgspec has refused."""
    _value.decode(hide(text))
    return Raw(text.strip(WHITESPACE))


def require_json(text: bytes) -> None:
    """Raise msgspec's error if a text is not one JSON value."""
    try:
        _value.decode(text)
    except DecodeError:
        if not may_have_lone(text):
            raise
        _value.decode(hide(text))


def decode_mended(decoder: Callable[[bytes], T], text: bytes) -> T:
    """Decode JSON; where there are lone surrogates that the decoder refuses, with U+FFFD in their place."""
    try:
        return decoder(text)
    except ValueError:
        if not may_have_lone(text):
            raise
        return decoder(mend(text))


MAX_LEVELS = 512
_SHORTEST_BYTES = 2 * (MAX_LEVELS + 1)
"""Each level has a bracket that opens it and one that closes it."""

_OPENING, _CLOSING = b"\x01", b"\xff"
_STEPS = bytes.maketrans(b"[{]}", 2 * _OPENING + 2 * _CLOSING)
"""A bracket as a signed byte: one level deeper, or back."""
_OTHERS = bytes(set(range(256)) - set(b'[]{}"'))
_BLOCK = 128


def any_too_deep(messages: Sequence[bytes | Raw]) -> bool:
    """Return whether any of some valid JSON values is nested too deeply. Most are too short to be, and cost nothing."""
    return max(map(len, messages), default=0) >= _SHORTEST_BYTES and any(map(too_deep, messages))


def too_deep(value: bytes | Raw) -> bool:
    """Return whether a valid JSON value, or one of several with commas between them, is nested too deeply."""
    if len(value) < _SHORTEST_BYTES:
        return False
    text = bytes(value)
    return _opens_more_than(text, MAX_LEVELS) and _goes_deeper_than(_steps(text), MAX_LEVELS)


def _opens_more_than(text: bytes, levels: int) -> bool:
    """Look for so many opening brackets, in strings too. Finding is quick where there are few; counting never is."""
    found = 0
    for bracket in (b"[", b"{"):
        place = text.find(bracket)
        while place >= 0:
            found += 1
            if found > levels:
                return True
            place = text.find(bracket, place + 1)
    return False


def _steps(text: bytes) -> bytes:
    """Leave only the brackets that are not within strings, as steps."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    steps = text.translate(_STEPS, _OTHERS).replace(b'""', b"")
    # From here on every other piece between quotation marks is within a string, and most texts have one piece.
    return b"".join(steps.split(b'"')[::2])


def _goes_deeper_than(steps: bytes, levels: int) -> bool:
    """Add the steps up, one by one only in blocks that could go too deep."""
    level = 0
    for start in range(0, len(steps), _BLOCK):
        block = steps[start : start + _BLOCK]
        deeper = block.count(_OPENING)
        if level + deeper > levels and level + max(accumulate(memoryview(block).cast("b"))) > levels:
            return True
        level += 2 * deeper - len(block)
    return False
