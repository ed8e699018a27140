"""Splitting a large batch of JSON messages before the decision on its append, one piece at a time (§9.1).

To split a million messages takes longer than a turn of the event loop may. A piece ends at a comma. If that comma is
not one between two messages, the piece in brackets is invalid JSON, because a string or a bracket is left open; then a
longer piece is tried. So the pieces are valid if and only if the batch is.
"""

from array import array
from collections.abc import Generator, Sequence
from itertools import accumulate, islice

from msgspec import Raw, Struct

from everbrook.protocol.content_type import JSON, parse_media_type
from everbrook.protocol.errors import InvalidJson, ProtocolError
from everbrook.protocol.json_mode import MAX_BATCH_VALUES, SEPARATOR, split_messages

PIECE_BYTES = 8 * 1024
"""The size of a piece. With the shortest values it takes less than half a millisecond."""
# Batches with fewer values, which take up to 7 ms, are split at once.
MANY_VALUES = 65_536
MAX_SHORT = 0xFF
"""The length of the longest message whose length fits into a byte."""
LARGE_BYTES = 2 * MANY_VALUES
"""The length of the shortest body with so many values."""


class Ends(array):  # type: ignore[type-arg] # at run time it has no parameters
    """The ends of the messages of a large batch, with their lengths for the journal, which are slow to compute."""

    __slots__ = ("lengths",)

    lengths: "array[int]"


class Split(Struct, frozen=True):
    """A split batch: its stored bytes and the lengths of its messages, or the error that refuses it.

    The lengths are single bytes if none is longer than `MAX_SHORT`.
    """

    data: bytes = b""
    lengths: "array[int]" = array("B")
    error: ProtocolError | None = None

    def pack(self, tail: int) -> tuple[bytes, Sequence[int]]:
        """Give the stored bytes, and the ends of the messages when they are appended at `tail`.

        The ends are an array: it takes a third of the time of a tuple, and is copied in one step.
        """
        if self.error:
            raise self.error
        ends = Ends("Q", islice(accumulate(self.lengths, initial=tail), 1, None))
        ends.lengths = self.lengths
        return self.data, ends


def is_large_batch(headers: dict[bytes, bytes], body: bytes) -> bool:
    """Tell whether a body of at least `LARGE_BYTES` is a batch of JSON messages that is split in pieces."""
    content_type = headers.get(b"content-type")
    if content_type is None or parse_media_type(content_type) != JSON:
        return False
    # A batch with more than the maximum of values is refused without being split.
    return MANY_VALUES <= body.count(SEPARATOR) < MAX_BATCH_VALUES and body.lstrip().startswith(b"[")


def split_in_pieces(body: bytes) -> Generator[None, None, Split]:
    """Split a large batch, one piece in each step."""
    parts: list[bytes] = []
    lengths = array("B")
    start, size = body.index(b"[") + 1, PIECE_BYTES
    while True:
        end = body.find(SEPARATOR, start + size)
        try:
            messages = _split_piece(b"[" + body[start:] if end < 0 else b"[%b]" % body[start:end])
        except InvalidJson as error:
            if end < 0:
                return Split(error=InvalidJson(f"{error.detail}, in what begins at byte {start}"))
            size *= 2
        else:
            parts.append(SEPARATOR.join(messages) + SEPARATOR)
            sizes = [len(message) + len(SEPARATOR) for message in messages]
            if lengths.itemsize == 1 and max(sizes) > MAX_SHORT:
                lengths = array("I", lengths)
            lengths.extend(sizes)
            if end < 0:
                return Split(b"".join(parts), lengths)
            start, size = end + 1, PIECE_BYTES
        yield None


def _split_piece(piece: bytes) -> list[Raw]:
    messages = split_messages(piece)
    if not messages:
        raise InvalidJson("the body must be JSON: nothing follows a comma")
    return messages
