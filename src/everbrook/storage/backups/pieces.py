"""Pieces: the parts in which a pinned store is transferred, each with the SHA-256 of the bytes that were read.

A receiver that has a piece already sends its digest, and gets the bytes only if the digests differ. A response may have
fewer pieces than were requested; the receiver requests the others again.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from hashlib import sha256
from struct import Struct as Layout

import msgspec
from msgspec import Struct

from everbrook.storage.api import Pin

BLOCK_BYTES = 128 * 1024
"""The length of a piece, except for the last one of a file."""
MAX_PIECES = 1024
MAX_PIECE_BYTES = 1024 * 1024
ANSWER_BYTES = 1024 * 1024
READ_BYTES = 16 * 1024 * 1024

_FRAME = Layout("<BI32s")


class State(IntEnum):
    """The state of a piece: the receiver has it, the bytes follow, or the file no longer exists."""

    SAME = 0
    GIVEN = 1
    GONE = 2


_STATES = frozenset(State)


class Asked(Struct, frozen=True, array_like=True):
    """A request for a piece, with the digest of the receiver's bytes, if it has any."""

    name: str
    start: int
    size: int
    digest: str = ""


class Piece(Struct, frozen=True):
    """A piece, with its bytes if the receiver does not have them."""

    state: State
    digest: bytes
    data: bytes = b""


class PieceCorrupted(Exception):
    """A response with pieces was damaged in transit."""


def parse_asked(body: bytes) -> list[Asked]:
    """Parse a request for pieces. Raises `ValueError` if it is malformed."""
    asked = msgspec.json.decode(body, type=list[Asked])
    if not 1 <= len(asked) <= MAX_PIECES:
        raise ValueError(f"a request must have 1 to {MAX_PIECES} pieces, got {len(asked)}")
    for each in asked:
        if each.start < 0 or not 0 <= each.size <= MAX_PIECE_BYTES:
            raise ValueError(f"a piece must have 0 to {MAX_PIECE_BYTES} bytes and a start of at least 0, got {each}")
    return asked


def read_pieces(pin: Pin, asked: Sequence[Asked]) -> Iterator[Piece]:
    """Read the first of the requested pieces: at least one, and as many as fit into a response."""
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
    """Parse pieces, and verify each. Raises `PieceCorrupted` if one differs from what the server read."""
    pieces: list[Piece] = []
    position = 0
    while position < len(body):
        if len(body) - position < _FRAME.size:
            raise PieceCorrupted(f"a response of the server ends within the header of a piece, after {len(body)} bytes")
        state, size, digest = _FRAME.unpack_from(body, position)
        position += _FRAME.size
        data = body[position : position + size]
        position += size
        if state not in _STATES:
            raise PieceCorrupted(f"a response of the server has a piece in the unknown state {state}")
        if state == State.GIVEN and sha256(data).digest() != digest:
            raise PieceCorrupted(f"a piece of {len(data)} bytes from the server has the wrong SHA-256")
        pieces.append(Piece(State(state), digest, data))
    return pieces
