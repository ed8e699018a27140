"""Records: the framing of changes in a log file, and the scan of a log file for them.

A record is a frame and a body. The frame has a checksum of its own and lists the streams that the body edits, so that
damage to a body can be attributed to streams. Both checksums are seeded, and every log file has its own seed. So in a
recycled file the remains of its earlier use do not verify, and neither does the data of a client that imitates a
record. `durable` is the number up to which all changes were known to be durable when the record was written.

A record without a body is a seal: it repeats the number of the record before it, and so proves that it was durable.
"""

import zlib
from collections.abc import Iterator, Sequence
from struct import Struct

from msgspec import Struct as Value

FRAME = Struct("<4sIIIQQHH")
CHECKED = Struct("<IIQQHH")
"""The fields of a frame after its checksum: body checksum, body length, number, durable, count of streams, flags."""
STREAM = Struct("<Q")

CONTINUES = 1
"""The flag of a seal after which the journal continues in the next file."""
MAX_STREAMS = 0xFFFF
"""The largest number of streams that a frame can list."""

_ONE_STREAM = Struct("<IIQQHHQ")
_CHECKSUM = Struct("<I")
_CHECKED_FROM = FRAME.size - CHECKED.size
_FILE = Struct("<QQQ")
# A damaged frame that lists more streams than this is not recovered: its length would have to be guessed too often.
_MAX_GUESSED_STREAMS = 8


class Record(Value, frozen=True, gc=False):
    """A record of a log, and its place. `number` is 0 if only the frame is damaged."""

    position: int
    end: int
    number: int
    durable: int
    flags: int
    body: bytes

    @property
    def seal(self) -> bool:
        """Whether this is a seal."""
        return not self.body


class Unreadable(Value, frozen=True, gc=False):
    """Bytes of a log without a readable record. `number` and `streams` are known if the frame verifies."""

    position: int
    end: int
    number: int = 0
    streams: tuple[int, ...] = ()


def seed_of(salt: int, first: int, use: int) -> int:
    """Return the seed of the log file that begins with record `first` and is the `use`-th file of its journal."""
    return zlib.crc32(_FILE.pack(salt, first, use))


def tag_of(seed: int) -> bytes:
    """Return the first bytes of each record in a file. The scan finds the next record after damage by them."""
    return _CHECKSUM.pack(zlib.crc32(b"record", seed))


class Framer:
    """Frames the records of one log file."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._tag = tag_of(seed)

    def frame(self, number: int, durable: int, streams: Sequence[int], body: bytes, flags: int = 0) -> bytes:
        """Return the frame of a record. Its body follows it in the log."""
        body_checksum = zlib.crc32(body, self._seed)
        if len(streams) == 1:
            checked = _ONE_STREAM.pack(body_checksum, len(body), number, durable, 1, flags, streams[0])
        else:
            fixed = CHECKED.pack(body_checksum, len(body), number, durable, len(streams), flags)
            checked = fixed + Struct(f"<{len(streams)}Q").pack(*streams)
        return self._tag + _CHECKSUM.pack(zlib.crc32(checked, self._seed)) + checked


class LogScan:
    """Reads the records of one log file. Recovery and the checker use the same scan."""

    def __init__(self, log: bytes, seed: int) -> None:
        self._log = log
        self._seed = seed
        self._tag = tag_of(seed)

    def items(self) -> Iterator[Record | Unreadable]:
        """Yield the records in order, and the unreadable ranges between and after them.

        The log ends at zeros or at the remains of an earlier use of the file.
        """
        position = 0
        while True:
            found = self._at(position)
            if found is None:
                end = self._next_frame(position + 1)
                if end is None:
                    # A tag without a whole frame begins a torn write. Other bytes are zeros or an earlier use.
                    if self._log.startswith(self._tag, position):
                        yield Unreadable(position, len(self._log))
                    return
                found = self._recovered(position, end) or Unreadable(position, end)
            yield found
            position = found.end

    def _at(self, position: int) -> Record | Unreadable | None:
        """Read the record at a position. None: no frame verifies there. The tag is not compared: it may be damaged."""
        log, body = self._log, position + FRAME.size
        if body > len(log):
            return None
        _, checksum, body_checksum, length, number, durable, count, flags = FRAME.unpack_from(log, position)
        body += STREAM.size * count
        end = body + length
        if end > len(log) or zlib.crc32(log[position + _CHECKED_FROM : body], self._seed) != checksum:
            return None
        if zlib.crc32(log[body:end], self._seed) != body_checksum:
            return Unreadable(position, end, number, Struct(f"<{count}Q").unpack_from(log, position + FRAME.size))
        return Record(position, end, number, durable, flags, log[body:end])

    def _next_frame(self, position: int) -> int | None:
        """Find where the next whole frame begins."""
        while (position := self._log.find(self._tag, position)) >= 0:
            # The tag may occur in the data of a client, so the frame must verify too.
            if self._at(position):
                return position
            position += 1
        return None

    def _recovered(self, position: int, end: int) -> Record | None:
        """Return the record before `end` if only its frame is damaged.

        Either the checksum of the body is right, or that checksum is the only damaged field of the frame.
        """
        log = self._log
        for count in range(1, _MAX_GUESSED_STREAMS + 1):
            start = position + FRAME.size + STREAM.size * count
            if start >= end:
                return None
            checksum, body_checksum = Struct("<II").unpack_from(log, position + len(self._tag))
            found = zlib.crc32(log[start:end], self._seed)
            checked = _CHECKSUM.pack(found) + log[position + _CHECKED_FROM + _CHECKSUM.size : start]
            if found == body_checksum or zlib.crc32(checked, self._seed) == checksum:
                return Record(position, end, 0, 0, 0, log[start:end])
        return None
