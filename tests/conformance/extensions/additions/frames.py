"""Reads framed pages: the messages of a page as columns, each with its offset and the time at which it came.

Little-endian: the head, as many ends as there are messages, as many times, then the bytes. Message i is
data[ends[i-1] - first : ends[i] - first - trailer].
"""

import struct

from msgspec import Struct

CONTENT_TYPE = "application/vnd.everbrook.frames"
_HEAD = struct.Struct("<4sBBHIIQ")


class Message(Struct, frozen=True):
    """One message: where it begins and ends, when it came, and its bytes."""

    start: int
    end: int
    time_ms: int
    payload: bytes


def parse_frames(page: bytes) -> list[Message]:
    """Split a page, which must hold nothing else."""
    magic, version, trailer, reserved, count, reserved_too, first = _HEAD.unpack_from(page)
    assert (magic, version, reserved, reserved_too) == (b"EBF1", 1, 0, 0)
    ends = struct.unpack_from(f"<{count}Q", page, _HEAD.size)
    times = struct.unpack_from(f"<{count}Q", page, _HEAD.size + 8 * count)
    data = page[_HEAD.size + 16 * count :]
    starts = [first, *ends[:-1]]
    assert len(data) == (ends[-1] if ends else first) - first
    return [
        Message(start, end, time, data[start - first : end - first - trailer])
        for start, end, time in zip(starts, ends, times, strict=bool(ends))
    ]
