"""Positions: how far a query has come in each stream, as Spark keeps them in its checkpoint.

    {"": "1 6a1c-17", "orders": "52480@mi0a2k3j#6a1c000000000007", "agents/7": "1200@mi0a4x1c#6a1c00000000000b$"}

A position is an offset (one of Everbrook without its leading zeros), then `@` and the creation time of the stream, `#`
and its incarnation, `!` if the stream ended there and will expire, and `$` if it was closed there. The time and the
incarnation, if the server reports them, distinguish a stream from an earlier one of the same name. The entry without a
name has the version of this format, `starting` if the query has only fixed where it begins, and the token of the list
of streams, if there is one. `{}` is a query that has not looked at any stream yet.
"""

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct

from everbrook.protocol.offset import OFFSET_DIGITS

EARLIEST, LATEST = "earliest", "latest"
BEGINNING = "-1"
"""The offset from which a stream is read as a whole."""
VERSION_KEY, VERSION, STARTING = "", "1", "1 starting"

_IN_INCARNATION = re.compile(r"(.*)@([^@#!]*)(?:#([^@#!]+))?(!?)", re.DOTALL)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class InvalidPositions(ValueError):
    """A checkpoint holds something that this connector did not write."""

    restartable = False
    advice = "{reset} lets it begin anew"


class Position(Struct, frozen=True):
    """An offset in one incarnation of a stream, as far as that is known, and whether it is the last one."""

    offset: str
    created_at_ms: int | None = None
    final: bool = False
    incarnation: str = ""
    expires: bool = False
    """Whether the stream ended there, and will expire."""

    def at(self, offset: str) -> "Position":
        """Return a position at an offset of the same incarnation that need not be its end."""
        return Position(offset, self.created_at_ms, incarnation=self.incarnation)

    def differs(self, other: "Position") -> bool:
        """Return whether it is of another incarnation, as far as that can be known."""
        if self.incarnation and other.incarnation:
            return self.incarnation != other.incarnation
        return None not in {self.created_at_ms, other.created_at_ms} and self.created_at_ms != other.created_at_ms


def format_position(position: Position) -> str:
    """Write a position as a checkpoint has it."""
    text = _compact(position.offset)
    known = position.created_at_ms is not None or position.incarnation or position.expires
    if known or "@" in text or text.endswith("$"):
        text += "@" + _base36(position.created_at_ms)
    if position.incarnation:
        text += "#" + quote(position.incarnation, safe="")
    text += "!" if position.expires else ""
    return f"{text}$" if position.final else text


def parse_position(text: str) -> Position:
    final = text.endswith("$")
    found = _IN_INCARNATION.fullmatch(text.removesuffix("$"))
    offset, created, incarnation, expires = found.groups() if found else (text.removesuffix("$"), None, None, None)
    try:
        created_at_ms = int(created, 36) if created else None
    except ValueError:
        raise InvalidPositions(
            f"a position must be an offset, or an offset, @ and a time in base 36, got {text!r}: start with a new "
            "checkpoint"
        ) from None
    return Position(_expanded(offset), created_at_ms, final, unquote(incarnation or ""), bool(expires))


def _compact(offset: str) -> str:
    """Drop zeros. The numbers of other servers, which may be of any length, are marked and stay as they are."""
    if not (offset.isascii() and offset.isdecimal()):
        return offset
    return str(int(offset)) if len(offset) == OFFSET_DIGITS else f"={offset}"


def _expanded(text: str) -> str:
    if text.startswith("="):
        return text[1:]
    return text.zfill(OFFSET_DIGITS) if text.isascii() and text.isdecimal() else text


def _base36(number: int | None) -> str:
    if number is None:
        return ""
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


def begun(positions: Mapping[str, str]) -> bool:
    """Return whether a query has fixed where it begins."""
    version = positions.get(VERSION_KEY)
    if version is not None and version.partition(" ")[0] != VERSION:
        raise InvalidPositions(
            f"the checkpoint has version {version!r}, this connector reads {VERSION!r}: start with a new checkpoint"
        )
    return version is not None


def is_starting(positions: Mapping[str, str]) -> bool:
    """Return whether the query has only fixed where it begins."""
    return positions.get(VERSION_KEY, "").startswith(STARTING)


def format_version(version: str, token: str | None) -> str:
    """Write the entry without a name: the version, and the token of the list of streams if there is one."""
    return f"{version} {token}" if token else version


def token_of(positions: Mapping[str, str]) -> str:
    """Return the token of the list of streams from which the positions were taken. Empty if there was none."""
    version = positions.get(VERSION_KEY, "")
    return version.removeprefix(STARTING if is_starting(positions) else VERSION).strip()


class Boundary(Struct, frozen=True):
    """Where a query begins or ends: at one place in all streams, or at an offset in some of them."""

    everywhere: str | None = None
    offsets: dict[str, str] = {}

    def of(self, name: str, otherwise: str) -> str:
        """Return the place in a stream: an offset, `earliest` or `latest`."""
        return self.everywhere or self.offsets.get(name, otherwise)


def parse_boundary(text: str) -> Boundary:
    """Read `startingOffsets` or `endingOffsets`."""
    if text.lower() in {EARLIEST, LATEST}:
        return Boundary(text.lower())
    try:
        offsets = msgspec.json.decode(text, type=dict[str, str | int])
    except msgspec.MsgspecError:
        raise ValueError(f'must be {EARLIEST}, {LATEST}, or JSON such as {{"orders": "0000000000000042"}}') from None
    return Boundary(offsets={name: _place(name, given) for name, given in offsets.items()})


def _place(name: str, given: str | int) -> str:
    if isinstance(given, int):
        if given < 0:
            raise ValueError(f"must have offsets that are not negative, and has {given} for {name!r}")
        return str(given).zfill(OFFSET_DIGITS)
    return given.lower() if given.lower() in {EARLIEST, LATEST} else _expanded(given)


def number_of(offset: str) -> int | None:
    """Return the bytes before an offset, if it is one of Everbrook, where offsets count bytes."""
    if offset == BEGINNING:
        return 0
    return int(offset) if len(offset) == OFFSET_DIGITS and offset.isascii() and offset.isdecimal() else None


def offset_of(number: int) -> str:
    """Write an offset of Everbrook."""
    return f"{number:0{OFFSET_DIGITS}d}"
