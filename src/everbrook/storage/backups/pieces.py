"""Pieces: how parts of a pinned store travel. Each comes with the SHA-256 of what was read, at the same reading.

Who has a piece already says which digest that has, and gets the bytes only if they are others. An answer may be
shorter than what was asked for: then the rest is asked for again.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from hashlib import sha256
from struct import Struct as Layout

import msgspec
from msgspec import Struct

from everbrook.storage.pin import Pin

BLOCK_BYTES = 128 * 1024
"""The length of a piece, but for the last one of a file."""
MAX_PIECES = 1024
MAX_PIECE_BYTES = 1024 * 1024
ANSWER_BYTES = 1024 * 1024
READ_BYTES = 16 * 1024 * 1024

_FRAME = Layout("<BI32s")


class State(IntEnum):
    """What became of a piece that was asked for."""

    SAME = 0
    GIVEN = 1
    GONE = 2


_STATES = frozenset(State)


class Asked(Struct, frozen=True, array_like=True):
    """A piece that somebody wants, and the digest of what he has in its place."""

    name: str
    start: int
    size: int
    digest: str = ""


class Piece(Struct, frozen=True):
    """A piece, with its bytes if they were not known."""

    state: State
    digest: bytes
    data: bytes = b""


class Mangled(Exception):
    """What came is not what was sent."""


def parse_asked(body: bytes) -> list[Asked]:
    """Read a request for pieces. Raise ValueError if it is none."""
    asked = msgspec.json.decode(body, type=list[Asked])
    if not 1 <= len(asked) <= MAX_PIECES:
        raise ValueError(f"from 1 to {MAX_PIECES} pieces can be asked for at once, got {len(asked)}")
    for each in asked:
        if each.start < 0 or not 0 <= each.size <= MAX_PIECE_BYTES:
            raise ValueError(f"a piece has from 0 to {MAX_PIECE_BYTES} bytes, from a start of 0 or more, got {each}")
    return asked


def read_pieces(pin: Pin, asked: Sequence[Asked]) -> Iterator[Piece]:
    """Read pieces, as many as fit into an answer, and at least one."""
    given = read = 0
    for each in asked:
        if given >= ANSWER_BYTES or read >= READ_BYTES:
            return
        try:
            data = pin.read(each.name, each.start, each.size)
        except FileNotFoundError:
            yield Piece(State.GONE, bytes(32))
            continue
        digest = sha256(data)
        read += len(data)
        if digest.hexdigest() == each.digest:
            yield Piece(State.SAME, digest.digest())
        else:
            given += len(data)
            yield Piece(State.GIVEN, digest.digest(), data)


def format_pieces(pieces: Iterator[Piece]) -> bytes:
    parts: list[bytes] = []
    for piece in pieces:
        parts += (_FRAME.pack(piece.state, len(piece.data), piece.digest), piece.data)
    return b"".join(parts)


def parse_pieces(body: bytes) -> list[Piece]:
    """Read pieces, and verify each. `Mangled` says that one is not what was read."""
    pieces: list[Piece] = []
    position = 0
    while position < len(body):
        if len(body) - position < _FRAME.size:
            raise Mangled("an answer of the server ends in the middle")
        state, size, digest = _FRAME.unpack_from(body, position)
        position += _FRAME.size
        data = body[position : position + size]
        position += size
        if state not in _STATES:
            raise Mangled(f"an answer of the server has a piece in state {state}, which there is not")
        if state == State.GIVEN and sha256(data).digest() != digest:
            raise Mangled("a piece is not what the server has read: its SHA-256 is another")
        pieces.append(Piece(State(state), digest, data))
    return pieces
