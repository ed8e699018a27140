"""Records: how changes are framed in a log file, so that a torn or damaged one is known.

A log file begins with a header that holds a random salt. A record is its frame and its body; the checksum is seeded
with the salt and covers everything that follows it, the body included: a valid frame over bytes that were never
written is no record, and neither is what a client wrote into a body to look like one. `synced` is the number up to
which everything was known to be on the disk when the record was written: that is how a torn group, which nobody was
told of, is told from later damage.
"""

import zlib
from collections.abc import Iterator
from struct import Struct

from msgspec import Struct as Value

LOG_MAGIC = b"EBL1"
LOG_HEADER = Struct("<4sIQI")
MAGIC = b"EBR1"
FRAME = Struct("<4sIIQQ")
CHECKED = Struct("<IQQ")
"""The fields of a frame that its checksum covers."""

_LOG_CHECKED = Struct("<4sIQ")
_CHECKSUM = Struct("<I")
_CHECKED_FROM = len(MAGIC) + _CHECKSUM.size


class Record(Value, frozen=True, gc=False):
    """A record found in a log, and where it lies there."""

    position: int
    end: int
    number: int
    synced: int
    body: bytes


def log_header(salt: int, first: int) -> bytes:
    """Write the header of a log whose records begin with number `first`."""
    checked = _LOG_CHECKED.pack(LOG_MAGIC, salt, first)
    return checked + _CHECKSUM.pack(zlib.crc32(checked))


def parse_log_header(log: bytes) -> tuple[int, int] | None:
    """Read salt and first number of a log, if its header is whole."""
    if len(log) < LOG_HEADER.size:
        return None
    magic, salt, first, checksum = LOG_HEADER.unpack_from(log)
    if magic != LOG_MAGIC or zlib.crc32(log[: _LOG_CHECKED.size]) != checksum:
        return None
    return salt, first


def frame(salt: int, number: int, synced: int, body: bytes) -> bytes:
    """Write a record."""
    checked = CHECKED.pack(len(body), number, synced)
    checksum = zlib.crc32(body, zlib.crc32(checked, salt))
    return b"".join((MAGIC, _CHECKSUM.pack(checksum), checked, body))


def record_at(log: bytes, position: int, salt: int) -> Record | None:
    """Read the record that begins at `position`, if a whole one does."""
    start = position + FRAME.size
    if start > len(log):
        return None
    magic, checksum, length, number, synced = FRAME.unpack_from(log, position)
    if magic != MAGIC or start + length > len(log):
        return None
    body = log[start : start + length]
    if zlib.crc32(body, zlib.crc32(log[position + _CHECKED_FROM : start], salt)) != checksum:
        return None
    return Record(position, start + length, number, synced, body)


def records(log: bytes, salt: int) -> Iterator[Record]:
    """Give every whole record of a log, those too that lie behind damage."""
    position = LOG_HEADER.size
    while position < len(log):
        record = record_at(log, position, salt)
        if record:
            yield record
            position = record.end
        else:
            position = log.find(MAGIC, position + 1)
            if position < 0:
                return
