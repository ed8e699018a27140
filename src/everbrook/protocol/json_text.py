r"""JSON text that decoders treat differently: lone surrogates, and deep nesting.

JavaScript writes `"\ud83d"` when a chunk ends inside an emoji. The grammar of JSON allows it, msgspec refuses it (gap
G-03). So msgspec decodes each text first, and only a text that it refuses is examined again; other texts cost nothing
more. Stored bytes keep their escapes. Decoders put U+FFFD in their place, because a lone surrogate can't be encoded in
UTF-8.

A decoder also refuses a value that is nested deeper than the recursion limit of the interpreter. That limit differs
between versions: below 1,000 levels in CPython 3.11, thousands in 3.13. A client on any version must be able to read
the messages that a server accepts, so the limit here is a fixed number.
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
"""An escaped backslash, after which `u` begins no escape, and a placeholder for it that JSON text can't contain."""


def may_have_lone(text: bytes) -> bool:
    """Return whether a text has the escape of any surrogate, lone or not."""
    return rb"\ud" in text or rb"\uD" in text


def hide(text: bytes) -> bytes:
    """Return a text of the same length without surrogates that is JSON if and only if the given text is.

    The values differ, their places do not. After an escaped backslash `u` is plain text, and stays plain text after
    these two replacements. They cost less than a search for lone surrogates.
    """
    return text.replace(rb"\ud", rb"\u0").replace(rb"\uD", rb"\u0")


def mend(text: bytes) -> bytes:
    """Replace each lone surrogate by U+FFFD, whose escape has the same length. Other bytes stay."""
    # The placeholder must not occur in the text. A text with a NUL is no JSON, so the decoder refuses it anyway.
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

    Only blanks and a comma lie between two values, and no value begins with either, so the first match is the right
    one.
    """
    hidden = hide(array)
    values, at = [], hidden.find(b"[") + 1
    for value in _array.decode(hidden):
        at = hidden.index(bytes(value), at)
        values.append(Raw(array[at : at + len(value)]))
        at += len(value)
    return values


def cut_hidden(text: bytes) -> Raw:
    """Validate one JSON value that msgspec has refused, and strip its blanks."""
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
    """Decode JSON. If the decoder refuses it for lone surrogates, decode it with U+FFFD in their place."""
    try:
        return decoder(text)
    except ValueError:
        if not may_have_lone(text):
            raise
        return decoder(mend(text))


MAX_LEVELS = 512
_SHORTEST_BYTES = 2 * (MAX_LEVELS + 1)
"""The shortest text that can be too deep: each level has an opening and a closing bracket."""

_OPENING, _CLOSING = b"\x01", b"\xff"
_STEPS = bytes.maketrans(b"[{]}", 2 * _OPENING + 2 * _CLOSING)
"""Translates a bracket to a signed byte: +1 for an opening one, -1 for a closing one."""
_OTHERS = bytes(set(range(256)) - set(b'[]{}"'))
_BLOCK = 128


def any_too_deep(messages: Sequence[bytes | Raw]) -> bool:
    """Return whether any of several valid JSON values is nested too deeply. Values that are too short cost nothing."""
    return max(map(len, messages), default=0) >= _SHORTEST_BYTES and any(map(too_deep, messages))


def too_deep(value: bytes | Raw) -> bool:
    """Return whether a valid JSON value, or one of several with commas between them, is nested too deeply."""
    if len(value) < _SHORTEST_BYTES:
        return False
    text = bytes(value)
    return _opens_more_than(text, MAX_LEVELS) and _goes_deeper_than(_steps(text), MAX_LEVELS)


def _opens_more_than(text: bytes, levels: int) -> bool:
    """Return whether a text has more than `levels` opening brackets, in strings too.

    This is a cheap first test: `find` is fast in a text with few brackets, and the loop ends early in one with many.
    """
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
    """Return the brackets outside of strings, as signed bytes."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    steps = text.translate(_STEPS, _OTHERS).replace(b'""', b"")
    # Every other piece between quotation marks is inside a string. Most texts have one piece left here.
    return b"".join(steps.split(b'"')[::2])


def _goes_deeper_than(steps: bytes, levels: int) -> bool:
    """Return whether a running sum of the steps exceeds `levels`. Only blocks that could exceed it are summed."""
    level = 0
    for start in range(0, len(steps), _BLOCK):
        block = steps[start : start + _BLOCK]
        deeper = block.count(_OPENING)
        if level + deeper > levels and level + max(accumulate(memoryview(block).cast("b"))) > levels:
            return True
        level += 2 * deeper - len(block)
    return False
