"""Pages of a table: the messages of one response as columns, with their offsets and times.

A server with the extension frames returns the offset and time of each message, and its bytes are used without a copy.
The pages of other servers have only the offsets of whole pages, and no times.
"""

from array import array
from collections.abc import Iterator
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from everbrook.client.content import Kind
from everbrook.client.errors import InvalidAnswer
from everbrook.client.page import Page
from everbrook.protocol.frames import Frames
from everbrook.protocol.json_text import MAX_LEVELS, any_too_deep, split_array
from everbrook.protocol.offset import OFFSET_DIGITS

TIME = pa.timestamp("ms", "UTC")
OFFSET = pa.string()
_NOTHING = array("Q")


class TablePage(Struct, frozen=True, kw_only=True):
    """Consecutive messages. If the frames have no times, the times are null."""

    frames: Frames
    exact: bool = True
    """Whether the frames' offsets are those of the stream."""
    begins: str = ""
    ends: str = ""
    """The offsets before and after the page, of a server without frames."""

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def next_offset(self) -> str:
        """The offset at which the next page begins."""
        return f"{self.frames.ends[-1]:0{OFFSET_DIGITS}d}" if self.exact else self.ends

    @property
    def messages(self) -> bytes:
        """The messages of a JSON stream, with a comma between them."""
        return self.frames.data[: -self.frames.trailer]

    # Columns

    def offsets(self) -> pa.Array:
        """The offset of each message."""
        if self.exact:
            first = pa.array([f"{self.frames.first:0{OFFSET_DIGITS}d}"], OFFSET)
            return pa.concat_arrays([first, self.next_offsets()[:-1]])
        return _padded([self.begins], len(self))

    def next_offsets(self) -> pa.Array:
        """The offset after each message."""
        if self.exact:
            return pc.utf8_lpad(_numbers(self.frames.ends, pa.int64()).cast(OFFSET), OFFSET_DIGITS, "0")
        return _padded([self.ends], len(self), behind=False)

    def times(self) -> pa.Array:
        """The time at which each message was appended, or null."""
        return _numbers(self.frames.times, TIME) if len(self.frames.times) else pa.nulls(len(self), TIME)

    def values(self, type_: pa.DataType) -> pa.Array:
        """The messages themselves, as strings or as bytes."""
        frames = self.frames
        ends = pc.subtract(_numbers(frames.ends, pa.int64()), frames.first).cast(pa.int32())
        starts = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        column = pa.Array.from_buffers(pa.binary(), len(self), [None, starts.buffers()[1], pa.py_buffer(frames.data)])
        if frames.trailer:
            column = pc.binary_slice(column, 0, -frames.trailer)
        return column if type_ == pa.binary() else _text(column)


def _numbers(values: "array[int]", type_: pa.DataType) -> pa.Array:
    """Wrap 64-bit numbers as a column without a copy."""
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(values)])


def _padded(known: list[str], count: int, *, behind: bool = True) -> pa.Array:
    """Make a column with one value for the first or last message of a page, and nulls for the others."""
    unknown: list[str | None] = [None] * (count - 1)
    return pa.array([*known, *unknown] if behind else [*unknown, *known], OFFSET)


def _text(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:  # a character may begin in one message and end in the next
        return pa.array([bytes(value).decode("utf-8", "replace") for value in column.to_pylist()], pa.string())


def table_pages_of(page: Page) -> Iterator[TablePage]:
    """Yield the messages of a page of a server that does not know frames."""
    messages = _split(page)
    if not messages:
        return
    trailer = b"," if page.kind is Kind.JSON else b""
    data = trailer.join(messages) + trailer
    ends = array("Q", accumulate(len(message) + len(trailer) for message in messages))
    frames = Frames(0, len(trailer), ends, _NOTHING, data)
    yield TablePage(frames=frames, exact=False, begins=page.offset, ends=page.next_offset)


def _split(page: Page) -> list[bytes]:
    if page.kind is not Kind.JSON:
        return [page.data] if page.data else []
    try:
        raws = split_array(page.data or b"[]")
    except (ValueError, RecursionError) as error:
        raise InvalidAnswer(f"a page of the stream is not an array of JSON: {error}") from error
    if any_too_deep(raws):
        raise InvalidAnswer(f"a page of the stream is not an array of JSON of at most {MAX_LEVELS} levels")
    return [bytes(raw) for raw in raws]
