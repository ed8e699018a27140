"""Chunks: how a run of messages is kept in LMDB, as a few large values with an index beside each.

A chunk's index has the ends of its messages and, where appends are batches, of its appends, relative to the chunk's
first offset, and the time of each append. A chunk may begin inside an append that began in the one before it.
"""

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

from msgspec import Struct as Value

from everbrook.storage.index import MessageIndex
from everbrook.storage.run import Run

COUNTS = Struct("<III")
END = Struct("<I")
TIME_BYTES = 8


class Chunk(Value, gc=False):
    """Consecutive messages of a stream."""

    start: int
    data: bytes
    index: MessageIndex


def pack_index(index: MessageIndex) -> bytes:
    appends = array("I") if index.appends == index.messages else index.appends
    counts = COUNTS.pack(len(index.messages), len(appends), len(index.times))
    return counts + index.messages.tobytes() + appends.tobytes() + index.times.tobytes()


def unpack_index(packed: bytes, start: int) -> MessageIndex:
    """Read the index of the chunk that begins at `start`."""
    messages, appends, times = array("I"), array("I"), array("Q")
    counts = COUNTS.unpack_from(packed)
    position = COUNTS.size
    for part, count in zip((messages, appends, times), counts, strict=True):
        size = count * part.itemsize
        part.frombytes(packed[position : position + size])
        position += size
    return MessageIndex(start, start, messages, appends or messages, times)


def unpack_extent(packed: bytes | memoryview) -> tuple[int, int] | None:
    """Read off an index how many messages its chunk has and how many bytes, and nothing else of it.

    None if its counts do not add up to its length.
    """
    if len(packed) < COUNTS.size:
        return None
    messages, appends, times = COUNTS.unpack_from(packed)
    length = COUNTS.size + (messages + appends) * END.size + times * TIME_BYTES
    if not messages or length != len(packed):
        return None
    return messages, END.unpack_from(packed, COUNTS.size + (messages - 1) * END.size)[0]


def cut_chunks(run: Run, chunk_bytes: int) -> list[Chunk]:
    """Cut a run into chunks at message boundaries. A message larger than `chunk_bytes` is a chunk by itself."""
    chunks: list[Chunk] = []
    start = run.first
    while start < run.tail:
        end = run.boundary_at_or_before(min(start + chunk_bytes, run.tail))
        if end <= start:
            end = run.boundary_after(start)
        chunks.append(Chunk(start, run.read(start, end), _index_between(run, start, end)))
        start = end
    return chunks


def _index_between(run: Run, start: int, end: int) -> MessageIndex:
    messages = _relative(run.messages, start, end)
    if run.appends is run.messages:
        first = bisect_right(run.appends, start)
        return MessageIndex(start, start, messages, messages, run.times[first : first + len(messages)])
    # An append that goes on in the next chunk is entered in both.
    first, last = bisect_right(run.appends, start), bisect_left(run.appends, end)
    appends = array("I", (append - start for append in run.appends[first : last + 1]))
    return MessageIndex(start, start, messages, appends, run.times[first : last + 1])


def _relative(ends: "array[int]", start: int, end: int) -> "array[int]":
    return array("I", (each - start for each in ends[bisect_right(ends, start) : bisect_right(ends, end)]))


def joined(first: Chunk, second: Chunk) -> Chunk:
    """Put two consecutive chunks together."""
    shift = len(first.data)
    messages = first.index.messages + array("I", (end + shift for end in second.index.messages))
    appends = messages
    if first.index.appends is not first.index.messages or second.index.appends is not second.index.messages:
        appends = first.index.appends + array("I", (end + shift for end in second.index.appends))
    times = first.index.times + second.index.times
    index = MessageIndex(first.start, first.start, messages, appends, times)
    return Chunk(first.start, first.data + second.data, index)
