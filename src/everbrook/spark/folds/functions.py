"""Functions of users that fold what are no changes: a log, a document, a sum.

    def fold(state: bytes | None, batches: Iterator[pyarrow.RecordBatch]) -> bytes | Folded

They get the last snapshot, or None, and the messages behind it in order, with the columns `offset`, `next_offset`,
`appended_at` and `value`; what they give is the new snapshot.
"""

from collections.abc import Callable, Iterator
from importlib import import_module

import pyarrow as pa
from msgspec import Struct

from everbrook.client.tables.pieces import Piece
from everbrook.protocol.frames import Frames
from everbrook.spark.given import InvalidOption

_NAMES = ["offset", "next_offset", "appended_at", "value"]


class Folded(Struct, frozen=True):
    """A snapshot with a content type of its own. Bytes alone have that of the stream."""

    data: bytes
    content_type: str | None = None


Function = Callable[[bytes | None, Iterator[pa.RecordBatch]], bytes | Folded]


def load_function(name: str) -> Function:
    """Find a function by its name, or say why it can't be used."""
    module, _, attributes = name.partition(":")
    try:
        found = import_module(module)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
    except ImportError as error:
        raise InvalidOption(f"function is {name!r}, and {module} can't be imported here: {error}") from error
    except AttributeError:
        raise InvalidOption(f"function is {name!r}, and there is no {attributes} in {module}") from None
    if not callable(found):
        raise InvalidOption(f"function is {name!r}, which can't be called: it is {type(found).__name__}")
    return found


def messages_of(frames: Frames) -> pa.RecordBatch:
    """Give a page as a function gets it."""
    piece = Piece(frames=frames)
    columns = [piece.offsets(), piece.next_offsets(), piece.times(), piece.values(pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=_NAMES)
