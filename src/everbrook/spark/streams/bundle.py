"""Bundles: pages of many streams as one set of columns, because a batch costs Spark about a millisecond at any size.

The bytes of all messages are concatenated, as in the pages; everything else is arithmetic on columns.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from numpy.typing import NDArray

from everbrook.client.content import Kind, kind_of
from everbrook.client.tables.table_page import TablePage
from everbrook.protocol.offset import OFFSET_DIGITS

MAX_ROWS = 50_000
MAX_BYTES = 8 * 1024 * 1024
TIME = pa.timestamp("us", "UTC")

Numbers = NDArray[np.uint64]


class StreamPiece(Struct, frozen=True):
    """A piece of a stream, and the metadata of that stream."""

    stream: str
    content_type: str
    piece: TablePage


class Bundle:
    """Pieces of streams that are all of JSON, or all of text or bytes."""

    def __init__(self, pieces: list[StreamPiece]) -> None:
        self._pieces = pieces
        self._frames = [each.piece.frames for each in pieces]
        self._counts = np.array([len(frames) for frames in self._frames])
        self.trailer = self._frames[0].trailer

    def __len__(self) -> int:
        return int(self._counts.sum())

    # Metadata of each message

    def streams(self) -> pa.Array:
        """The stream that each message is in."""
        return self._repeated([each.stream for each in self._pieces])

    def content_types(self) -> pa.Array:
        """The content type of its stream."""
        return self._repeated([each.content_type for each in self._pieces])

    def _repeated(self, values: list[str]) -> pa.Array:
        return _strings(values).take(_int64(np.repeat(np.arange(len(values)), self._counts)))

    def offsets(self) -> pa.Array:
        """Where each message begins."""
        if self._exact:
            return _padded(self._starts)
        return pa.concat_arrays([each.piece.offsets() for each in self._pieces])

    def next_offsets(self) -> pa.Array:
        """Where each message ends."""
        if self._exact:
            return _padded(self._ends)
        return pa.concat_arrays([each.piece.next_offsets() for each in self._pieces])

    def times(self) -> pa.Array:
        """When each message was appended, where that is known."""
        if self._exact:
            times = np.concatenate([np.frombuffer(frames.times, np.uint64) for frames in self._frames])
            return _int64((times * np.uint64(1000)).astype(np.int64)).cast(TIME)
        return pa.nulls(len(self), TIME)

    @property
    def _exact(self) -> bool:
        return all(each.piece.exact for each in self._pieces)

    @cached_property
    def _ends(self) -> Numbers:
        return np.concatenate([np.frombuffer(frames.ends, np.uint64) for frames in self._frames])

    @cached_property
    def _starts(self) -> Numbers:
        """Each message begins where the one before it ends, and the first of a piece where that begins."""
        starts = np.empty_like(self._ends)
        starts[1:] = self._ends[:-1]
        starts[self._firsts] = [frames.first for frames in self._frames]
        return starts

    @property
    def _firsts(self) -> NDArray[np.int64]:
        firsts: NDArray[np.int64] = np.cumsum(self._counts) - self._counts
        return firsts

    # The messages themselves

    @property
    def stored(self) -> bytes:
        """All messages as they are stored: in JSON streams with a comma after each."""
        return b"".join(frames.data for frames in self._frames)

    def payloads(self) -> pa.Array:
        """The bytes of each message."""
        bounds = np.zeros(len(self) + 1, np.int32)
        np.cumsum(self._ends - self._starts, out=bounds[1:])
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self.stored)]
        column = pa.Array.from_buffers(pa.binary(), len(self), buffers)
        return pc.binary_slice(column, 0, -self.trailer) if self.trailer else column

    def texts(self, *, any_stream: bool) -> pa.Array:
        """The text of each message. A character may begin in one message of a text stream and end in the next.

        Streams of bytes are refused unless `any_stream`; then a message of them that is not UTF-8 is null.
        """
        binary = [kind_of(each.content_type) is Kind.BINARY for each in self._pieces]
        if any(binary) and not any_stream:
            found = self._pieces[binary.index(True)]
            raise ValueError(
                f"the stream {found.stream!r} is of {found.content_type or 'an unknown type'}, which is no text: set "
                "the option valueType to binary, or to string with mode=PERMISSIVE, where invalid UTF-8 becomes null"
            )
        column = self.payloads()
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            of_bytes = np.repeat(binary, self._counts).tolist()
            return pa.array(map(_text, column.to_pylist(), of_bytes), pa.string())


def _text(value: bytes, of_bytes: bool) -> str | None:  # noqa: FBT001 - one of two columns
    try:
        return value.decode("utf-8", "strict" if of_bytes else "replace")
    except UnicodeDecodeError:
        return None


def _padded(numbers: Numbers) -> pa.Array:
    return pc.utf8_lpad(_int64(numbers.astype(np.int64)).cast(pa.string()), OFFSET_DIGITS, "0")


# `pyarrow.array` would do the same, but loads pandas first, which takes a second of every new worker.


def _int64(numbers: NDArray[np.int64]) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def _strings(values: list[str]) -> pa.Array:
    encoded = [value.encode() for value in values]
    bounds = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(value) for value in encoded], out=bounds[1:])
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def bundled(pieces: Iterator[StreamPiece]) -> Iterator[Bundle]:
    """Put pieces together that follow each other, up to a size."""
    waiting: list[StreamPiece] = []
    rows = size = 0
    for each in pieces:
        frames = each.piece.frames
        full = rows + len(frames) > MAX_ROWS or size + len(frames.data) > MAX_BYTES
        if waiting and (full or frames.trailer != waiting[0].piece.frames.trailer):
            yield Bundle(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(each)
        rows += len(frames)
        size += len(frames.data)
    if waiting:
        yield Bundle(waiting)
