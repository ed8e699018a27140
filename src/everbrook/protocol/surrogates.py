r"""Lone surrogates in JSON: valid text that stands for no character (gap G-03).

JavaScript writes `"\ud83d"` when a chunk ends inside an emoji. The grammar of JSON allows it, msgspec refuses it. So a
text is given to msgspec first, and only one that it refuses is looked at again: other texts pay nothing. Stored bytes
keep their escapes. Who decodes them gets U+FFFD, since a lone half can be neither written in UTF-8 nor compared.
"""

import re
from collections.abc import Callable
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
    """Tell whether a text has the escape of a surrogate at all."""
    return rb"\ud" in text or rb"\uD" in text


def hide(text: bytes) -> bytes:
    """Give a text of the same length that is JSON if and only if the given one is, and has no surrogates.

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
