"""Paths: where a column finds its value in a message, or in what is told of it.

    value.user.id          a field of the message, within objects
    value."first name"     fields whose names have dots, spaces or quotes are quoted
    $                      the whole message
    @stream                what is told of it: @stream, @offset, @next_offset, @content_type, @time, @operation

`@operation` is what an event does, in whichever dialect it is written.
"""

import re

from msgspec import Struct

TOLD = ("stream", "offset", "next_offset", "content_type", "time")
"""What the source tells of each message, in columns of these names."""
OPERATION = "operation"

_SEGMENT = re.compile(r'"((?:[^"\\]|\\.)+)"|([^\s."$@][^."]*)')
_ESCAPED = re.compile(r"\\(.)")


class Told(Struct, frozen=True):
    """Something that is told of a message."""

    name: str

    def __str__(self) -> str:
        return f"@{self.name}"


class Field(Struct, frozen=True):
    """A field of the message, by the names that lead to it. None of them lead to all of it."""

    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join(_quoted(name) for name in self.names) or "$"


Path = Told | Field
STREAM, OFFSET = Told("stream"), Told("offset")
WHOLE, KEY, TYPE, VALUE = Field(), Field(("key",)), Field(("type",)), Field(("value",))


def parse_path(text: str) -> Path:
    """Read a path. A ValueError says what is wrong with it."""
    if text == "$":
        return WHOLE
    if text.startswith("@"):
        if text[1:] not in (*TOLD, OPERATION):
            raise ValueError(f"must be one of {', '.join(f'@{name}' for name in (*TOLD, OPERATION))}, got {text!r}")
        return Told(text[1:])
    return Field(_names(text))


def _names(text: str) -> tuple[str, ...]:
    names: list[str] = []
    place = 0
    while found := _SEGMENT.match(text, place):
        names.append(_ESCAPED.sub(r"\1", found[1]) if found[1] is not None else found[2])
        place = found.end()
        if place == len(text):
            return tuple(names)
        if text[place] != ".":
            break
        place += 1
    raise ValueError(f"must be $, a name that begins with @, or fields such as value.user.id, got {text!r}")


def _quoted(name: str) -> str:
    found = _SEGMENT.fullmatch(name)
    if found is not None and found[2] is not None:
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
