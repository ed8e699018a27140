"""JSON mode: message boundaries in `application/json` streams (§9.1).

Messages are validated and split, never re-serialised: number spelling, key order, duplicate keys, inner whitespace and
lone surrogates come back byte for byte. Each message is stored with a trailing comma, so that any run of messages is
one slice of the stored bytes between two brackets.

To split a million messages takes longer than a turn of the event loop may take. So a large batch is split before the
decision on its append, one piece at a time. A piece ends at a comma. If the comma is not between two messages, the
piece in brackets is invalid JSON, because a string or a bracket is left open; then a longer piece is tried. So the
pieces are valid if and only if the batch is.
"""

from array import array
from collections.abc import Generator, Sequence
from itertools import accumulate, islice

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder

from everbrook.protocol.content_type import JSON, parse_media_type
from everbrook.protocol.errors import BatchTooLarge, InvalidJson, ProtocolError
from everbrook.protocol.json_text import (
    MAX_LEVELS,
    WHITESPACE,
    any_too_deep,
    cut_hidden,
    may_have_lone,
    split_hidden,
    too_deep,
)

SEPARATOR = b","
MAX_BATCH_VALUES = 1_000_000

_value = Decoder(Raw)
_array = Decoder(list[Raw])


def split_messages(body: bytes) -> list[Raw]:
    """Validate a body and flatten one level of array into messages (§9.1.2)."""
    is_array = body.lstrip(WHITESPACE).startswith(b"[")
    try:
        body.decode()
        if is_array:
            _check_values(body)
            messages = _array.decode(body)
            deep = any_too_deep(messages)
        else:
            messages = [_value.decode(body)]
            deep = too_deep(body)
    except UnicodeDecodeError as error:
        raise InvalidJson(f"the body must be JSON in UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise _too_deep() from None
    except DecodeError as error:
        messages = _split_refused(body, error, is_array=is_array)
        deep = any_too_deep(messages)
    if deep:
        raise _too_deep()
    return messages


def _split_refused(body: bytes, error: DecodeError, *, is_array: bool) -> list[Raw]:
    """Split a body that the decoder has refused only for its lone surrogates, which are valid JSON (gap G-03)."""
    try:
        if may_have_lone(body):
            return split_hidden(body) if is_array else [cut_hidden(body)]
    except RecursionError:
        raise _too_deep() from None
    except DecodeError as other:
        error = other
    raise InvalidJson(f"the body must be JSON: {error}") from None


def _too_deep() -> InvalidJson:
    return InvalidJson(f"the body must be JSON nested less deeply: a message has at most {MAX_LEVELS} levels")


def _check_values(body: bytes) -> None:
    """Refuse a batch that would take too long to split. Its commas bound the number of messages."""
    if len(body) > MAX_BATCH_VALUES and body.count(SEPARATOR) >= MAX_BATCH_VALUES:
        raise BatchTooLarge(f"a batch holds at most {MAX_BATCH_VALUES} values; send it in several appends")


def pack_messages(body: bytes, tail: int) -> tuple[bytes, tuple[int, ...]]:
    """Turn a body appended at `tail` into stored bytes and the offsets at which its messages end."""
    messages = split_messages(body)
    if not messages:
        return b"", ()
    between = len(SEPARATOR)
    ends = accumulate([len(message) + between for message in messages], initial=tail)
    return SEPARATOR.join(messages) + SEPARATOR, tuple(ends)[1:]


def join_messages(stored: bytes) -> bytes:
    """Return a run of stored messages as one JSON array (§9.1.5)."""
    return b"[%b]" % stored[:-1]


def joined_bytes(stored_bytes: int) -> int:
    """Return the size of the array of a run of stored messages: with two brackets, without the last separator."""
    return stored_bytes + 2 - len(SEPARATOR)


def join_part(part: bytes, *, first: bool, last: bool) -> bytes:
    """Return the part of the array that a part of a run of stored messages becomes."""
    if last:
        part = part[: -len(SEPARATOR)] + b"]"
    return b"[" + part if first else part


PIECE_BYTES = 8 * 1024
"""The size of a piece. To split one with the shortest values takes less than half a millisecond."""
# Batches with fewer values, which take up to 7 ms, are split at once.
MANY_VALUES = 65_536
MAX_SHORT = 0xFF
"""The longest length that fits into a byte."""
LARGE_BYTES = 2 * MANY_VALUES
"""The length of the shortest body with `MANY_VALUES` values."""


PLACED_MESSAGES = 16_384
"""The number of messages whose ends one step computes, in about half a millisecond."""


class Unplaced(Exception):
    """The ends of the messages of a split batch have yet to be computed for the tail at which it is appended."""

    def __init__(self, tail: int) -> None:
        super().__init__(f"at {tail}")
        self.tail = tail


class Ends(array):  # type: ignore[type-arg] # at run time it has no parameters
    """The ends of the messages of a large batch, with their lengths for the journal, which are slow to compute."""

    __slots__ = ("lengths",)

    lengths: "array[int]"


class Split(Struct):
    """A split batch: its stored bytes and the lengths of its messages, or the error that refuses it.

    The lengths are single bytes if none is longer than `MAX_SHORT`.
    """

    data: bytes = b""
    lengths: "array[int]" = array("B")
    error: ProtocolError | None = None
    patience: int = 0
    """How often `place` may still compute the ends before `pack` computes them at once.

    Without this bound, other writers that move the tail in every turn could keep a large batch waiting for ever.
    """
    tail: int | None = None
    """The tail for which the ends are computed."""
    ends: Sequence[int] = ()

    def pack(self, tail: int) -> tuple[bytes, Sequence[int]]:
        """Return the stored bytes, and the ends of the messages when they are appended at `tail`.

        Raises `Unplaced` if the ends must be computed first, by `place`. The ends are an array: it takes a third of the
        time of a tuple, and is copied in one step.
        """
        if self.error:
            raise self.error
        if self.tail != tail:
            if self.patience:
                raise Unplaced(tail)
            for _ in self.place(tail):
                pass
        return self.data, self.ends

    def place(self, tail: int) -> Generator[None, None, None]:
        """Compute the ends of the messages when they are appended at `tail`, some of them in each step."""
        self.patience = max(0, self.patience - 1)
        ends, end = Ends("Q"), tail
        ends.lengths = self.lengths
        for first in range(0, len(self.lengths), PLACED_MESSAGES):
            ends.extend(islice(accumulate(self.lengths[first : first + PLACED_MESSAGES], initial=end), 1, None))
            end = ends[-1]
            yield None
        self.ends, self.tail = ends, tail


def is_large_batch(headers: dict[bytes, bytes], body: bytes) -> bool:
    """Return whether a body of at least `LARGE_BYTES` is a batch of JSON messages that must be split in pieces."""
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
                return Split(error=InvalidJson(f"{error.detail}, in the value that begins at byte {start}"))
            # The comma was inside a message, or the batch is invalid: a longer piece shows which.
            size *= 2
        else:
            parts.append(SEPARATOR.join(messages) + SEPARATOR)
            sizes = [len(message) + len(SEPARATOR) for message in messages]
            if lengths.itemsize == 1 and max(sizes) > MAX_SHORT:
                # The first message that is too long for one byte: from here on all lengths take four.
                lengths = array("I", lengths)
            lengths.extend(sizes)
            if end < 0:
                return Split(b"".join(parts), lengths)
            start, size = end + 1, PIECE_BYTES
        yield None


def _split_piece(piece: bytes) -> list[Raw]:
    messages = split_messages(piece)
    if not messages:
        raise InvalidJson("the body must be JSON: a value is missing after a comma")
    return messages
