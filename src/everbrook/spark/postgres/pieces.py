"""Pieces: the rows of a task, some at a time, each the work of one transaction.

A piece is whole pages of streams, in their order: a position is where a page ends, and rows of other servers know of no
other place. All rows that a query makes of one message are in one piece. What was committed of a stream is always its
beginning, so a batch that dies goes on where it was.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from everbrook.spark.messages import InvalidRow
from everbrook.spark.positions import Position
from everbrook.spark.postgres.copying import column_of
from everbrook.spark.postgres.positions import Reached, Writer

STREAM, OFFSET, NEXT_OFFSET, VALUE = "stream", "offset", "next_offset", "value"


class Piece(Struct, frozen=True):
    """Rows that are written in one transaction, with the offsets between which each of their streams is in it."""

    rows: pa.RecordBatch
    starts: dict[str, str]
    ends: dict[str, str]


def pieces_of(
    batches: Iterable[pa.RecordBatch], *, max_rows: int = 40_000, max_bytes: int = 16 * 1024 * 1024
) -> Iterator[Piece]:
    """Put batches together, up to a size."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        _require_complete(batch)
        if waiting and batch.num_rows and _is_enough(waiting, max_rows, max_bytes) and not _goes_on(waiting[-1], batch):
            whole, rest = _cut(_joined(waiting))
            if whole.num_rows:
                yield _piece(whole)
            waiting = [rest] if rest.num_rows else []
        waiting += [batch] if batch.num_rows else []
    if waiting:
        yield _piece(_joined(waiting))


def _is_enough(batches: list[pa.RecordBatch], max_rows: int, max_bytes: int) -> bool:
    rows, size_bytes = sum(each.num_rows for each in batches), sum(each.nbytes for each in batches)
    return bool(rows >= max_rows or size_bytes >= max_bytes)


def _goes_on(before: pa.RecordBatch, batch: pa.RecordBatch) -> bool:
    """Tell whether rows go on with the message of those before: a query may make several rows of one."""
    return _place(before, before.num_rows - 1) == _place(batch, 0)


def _place(rows: pa.RecordBatch, number: int) -> tuple[str, str | None]:
    return rows.column(STREAM)[number].as_py(), rows.column(OFFSET)[number].as_py()


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(batches) if len(batches) > 1 else batches[0]


def _require_complete(batch: pa.RecordBatch) -> None:
    for name in (STREAM, VALUE):
        if batch.column(name).null_count:
            raise InvalidRow(f"a row can't be told from others, or is no message: its column {name!r} is null")


def _cut(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Cut rows behind the last page that is known to be whole. Of Everbrook each message is one."""
    ends = rows.column(NEXT_OFFSET)
    if ends.is_valid()[-1].as_py():
        return rows, rows.slice(0, 0)
    known = pc.indices_nonzero(ends.is_valid())
    size = known[-1].as_py() + 1 if len(known) else 0
    return rows.slice(0, size), rows.slice(size)


def _piece(rows: pa.RecordBatch) -> Piece:
    streams = rows.column(STREAM).dictionary_encode()
    codes = streams.indices.to_numpy()
    names = streams.dictionary.to_pylist()
    firsts = np.unique(codes, return_index=True)[1].tolist()
    lasts = (len(codes) - 1 - np.unique(codes[::-1], return_index=True)[1]).tolist()
    offsets, ends = rows.column(OFFSET), rows.column(NEXT_OFFSET)
    _require_order(codes, offsets)
    return Piece(
        rows,
        {name: offsets[first].as_py() for name, first in zip(names, firsts, strict=True)},
        {name: ends[last].as_py() for name, last in zip(names, lasts, strict=True)},
    )


def _require_order(codes: "np.typing.NDArray[np.int32]", offsets: pa.Array) -> None:
    """Refuse rows whose order got lost: a position would leave some of them behind."""
    backwards = pc.fill_null(pc.less(offsets[1:], offsets[:-1]), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    if (backwards & (codes[1:] == codes[:-1])).any() or offsets[0].as_py() is None:
        raise InvalidRow("rows of a stream are not in the order of their offsets")


def fresh_rows(piece: Piece, reached: dict[str, Reached], writer: Writer) -> tuple[pa.RecordBatch, list[str]]:
    """Give the rows that are not there yet, and the streams that were created anew."""
    anew = [name for name, start in piece.starts.items() if reached[name].begins_anew(writer, name, start)]
    bounds = {name: "" if name in anew else reached[name].next_offset for name in piece.starts}
    if all(start >= bounds[name] for name, start in piece.starts.items()):
        return piece.rows, anew
    streams = piece.rows.column(STREAM).dictionary_encode()
    limits = column_of([bounds[name].encode() for name in streams.dictionary.to_pylist()]).take(streams.indices)
    offsets = pc.fill_null_forward(piece.rows.column(OFFSET))
    return piece.rows.filter(pc.greater_equal(offsets, limits)), anew


def ends_of(piece: Piece, reached: dict[str, Reached], anew: list[str], writer: Writer) -> dict[str, Position]:
    """Give the positions behind a piece. Only the position of a stream that was created anew goes back."""
    before = {name: Reached() if name in anew else reached[name] for name in piece.ends}
    ends = {
        name: Position(
            max(end, before[name].next_offset),
            incarnation=writer.incarnations.get(name, "") or before[name].incarnation,
        )
        for name, end in piece.ends.items()
    }
    return {
        name: end
        for name, end in ends.items()
        if (end.offset, end.incarnation) != (reached[name].next_offset, reached[name].incarnation)
    }
