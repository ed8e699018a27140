"""Frames: a page of messages as columns, with the offset and the time of each, for programs.

A page is a header, the offset at which each message ends, the time at which each was appended, and the stored bytes of
all of them, one after the other. Numbers are little-endian and the columns are plain arrays, so that a program uses
them without a loop: they are the offsets and the data of an Arrow binary column.
"""

from array import array
from collections.abc import Iterator
from struct import Struct as Layout

from msgspec import Struct

from everbrook.protocol.json_mode import SEPARATOR
from everbrook.protocol.state import Identity

CONTENT_TYPE = b"application/vnd.everbrook.frames"
MAGIC = b"EBF1"
VERSION = 1
# Magic, version, trailer, two bytes reserved, count, four bytes reserved, first offset.
HEADER = Layout("<4sBBHIIQ")

_WORD_BYTES = 8
_LITTLE_ENDIAN = array("H", [1]).tobytes()[0] == 1


class InvalidFrames(ValueError):
    """Bytes are not a page of frames."""


class Frame(Struct, frozen=True, gc=False):
    """A message, its offset, the offset of the next one, and the time at which it was appended."""

    offset: int
    next_offset: int
    time: int
    payload: bytes


class Frames(Struct, frozen=True):
    """A page of messages. `trailer` is the number of stored bytes after each payload."""

    first: int
    trailer: int
    ends: "array[int]"
    times: "array[int]"
    data: bytes

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[Frame]:
        start = self.first
        for end, time in zip(self.ends, self.times, strict=True):
            payload = self.data[start - self.first : end - self.first - self.trailer]
            yield Frame(start, end, time, payload)
            start = end


def frames_of(identity: Identity, first: int, ends: "array[int]", times: "array[int]", stored: bytes) -> Frames:
    """Make a page from stored messages."""
    return Frames(first, len(SEPARATOR) if identity.json else 0, ends, times, stored)


def encode_frames(frames: Frames) -> bytes:
    """Encode a page."""
    header = HEADER.pack(MAGIC, VERSION, frames.trailer, 0, len(frames.ends), 0, frames.first)
    return b"".join((header, _column(frames.ends), _column(frames.times), frames.data))


def _column(values: "array[int]") -> bytes:
    if not _LITTLE_ENDIAN:  # pragma: no cover - the other kind of machine
        values = array("Q", values)
        values.byteswap()
    return values.tobytes()


def decode_frames(body: bytes) -> Frames:
    """Decode a page."""
    if len(body) < HEADER.size:
        raise InvalidFrames(f"a page of frames has at least {HEADER.size} bytes, got {len(body)}")
    magic, version, trailer, _, count, _, first = HEADER.unpack_from(body)
    if magic != MAGIC or version != VERSION:
        raise InvalidFrames(f"the body is not a page of frames of version {VERSION}")
    column_bytes = count * _WORD_BYTES
    data_at = HEADER.size + 2 * column_bytes
    ends = _array(body[HEADER.size : HEADER.size + column_bytes])
    times = _array(body[HEADER.size + column_bytes : data_at])
    data = body[data_at:]
    if len(times) != count or len(data) != (ends[-1] - first if count else 0):
        raise InvalidFrames("the page of frames was cut off")
    return Frames(first, trailer, ends, times, data)


def _array(column: bytes) -> "array[int]":
    # A page that was cut off may end inside a word: the caller notices that the column is too short.
    values = array("Q", column[: len(column) - len(column) % _WORD_BYTES])
    if not _LITTLE_ENDIAN:  # pragma: no cover - the other kind of machine
        values.byteswap()
    return values
