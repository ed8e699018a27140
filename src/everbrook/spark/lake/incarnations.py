"""Incarnations of streams in a table: a stream that was deleted and created again has rows with the same offsets.

The column `stream_incarnation` distinguishes them. It is null in rows of earlier versions, and of servers that report
no incarnation. Of such rows, two at the same offset that were appended at different times belong to two incarnations:
sorted by time, rows belong to the next one where their offsets go back. Rows of a known incarnation continue those
before it with lower offsets.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everbrook.spark.lake.columns import APPENDED_AT, INCARNATION, OFFSET, STREAM
from everbrook.spark.lake.lake_errors import TableMismatch

TELLING = (STREAM, OFFSET, APPENDED_AT, INCARNATION)
NUMBER = "\0incarnation"
"""A column that no table has: the number of the incarnation of a row, from 0 for the oldest of its stream."""
_PLACE = "\0place"


class RowIncarnations:
    """The incarnations of rows, which are read twice in the same order: first the distinguishing columns, then all."""

    def __init__(self, rows: pa.Table) -> None:
        self._numbers = np.zeros(len(rows), dtype=np.int32)
        self._newest = np.ones(len(rows), dtype=bool)
        self.several: list[str] = []
        """The streams that have several incarnations."""
        rows = rows.append_column(_PLACE, pa.array(range(len(rows)), pa.int64()))
        suspects = rows.filter(pc.is_in(rows.column(STREAM), _suspects(rows)))
        suspects = suspects.sort_by([(name, "ascending") for name in (STREAM, APPENDED_AT, OFFSET)])
        start = 0
        for size in suspects.group_by(STREAM, use_threads=False).aggregate([([], "count_all")]).column("count_all"):
            self._look_at(suspects.slice(start, size.as_py()))
            start += size.as_py()

    def numbered(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Add the number of the incarnation to rows."""
        for start, rows in _placed(tables):
            yield rows.append_column(NUMBER, pa.array(self._numbers[start : start + len(rows)]))

    def newest(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Leave out rows of incarnations before the newest one of each stream."""
        for start, rows in _placed(tables):
            yield rows.filter(pa.array(self._newest[start : start + len(rows)]))

    def _look_at(self, rows: pa.Table) -> None:
        """Find the incarnations in the rows of one stream, which are in the order of time."""
        numbers, stream = _numbers(rows), str(rows.column(STREAM)[0])
        if not numbers.max():
            return
        if rows.column(APPENDED_AT).null_count:
            raise TableMismatch(
                f"the table has rows of several incarnations of {stream!r}, and not the times at which they were "
                "appended, so the newest incarnation is unknown: read a version of the table with only one"
            )
        places = rows.column(_PLACE).to_numpy()
        self._numbers[places] = numbers
        self._newest[places] = numbers == numbers.max()
        self.several.append(stream)


def _placed(tables: Iterable[pa.Table]) -> Iterator[tuple[int, pa.Table]]:
    start = 0
    for rows in tables:
        yield start, rows
        start += len(rows)


def _suspects(rows: pa.Table) -> pa.Array:
    """Return the streams that may have several incarnations."""
    bounds: dict[str, dict[str | None, tuple[str, str]]] = {}
    for row in rows.group_by([STREAM, INCARNATION]).aggregate([(OFFSET, "min"), (OFFSET, "max")]).to_pylist():
        bounds.setdefault(row[STREAM], {})[row[INCARNATION]] = row[f"{OFFSET}_min"], row[f"{OFFSET}_max"]
    unknown = rows.filter(pc.is_null(rows.column(INCARNATION)))
    twice = unknown.group_by([STREAM, OFFSET]).aggregate([(APPENDED_AT, "min"), (APPENDED_AT, "max")])
    ends = (twice.column(f"{APPENDED_AT}_{end}") for end in ("min", "max"))
    names = {
        *(stream for stream, found in bounds.items() if not _is_one(found)),
        *twice.filter(pc.not_equal(*ends)).column(STREAM).to_pylist(),
    }
    return pa.array(sorted(names), pa.string())


def _is_one(bounds: dict[str | None, tuple[str, str]]) -> bool:
    """Return whether rows are of one incarnation: all of them, or all behind the rows without one."""
    if len(bounds) > 1 and None in bounds:
        last = bounds[None][1]
        return len(bounds) == 2 and all(first > last for name, (first, _) in bounds.items() if name is not None)  # noqa: PLR2004 - with None
    return len(bounds) == 1


def _numbers(rows: pa.Table) -> np.ndarray:
    """Number the incarnations of one stream, whose rows are in the order of time."""
    incarnations, offsets = rows.column(INCARNATION).to_pylist(), rows.column(OFFSET).to_pylist()
    unknown = [place for place, incarnation in enumerate(incarnations) if incarnation is None]
    found = list(_parted(unknown, offsets, rows.column(APPENDED_AT).to_pylist()))
    known: dict[str, list[int]] = {}
    for place, incarnation in enumerate(incarnations):
        if incarnation is not None:
            known.setdefault(incarnation, []).append(place)
    for places in known.values():
        before = max((one for one in found if one[0] < places[0]), default=[])
        lower = before and max(offsets[place] for place in before) < min(offsets[place] for place in places)
        if lower and all(incarnations[place] is None for place in before):
            before += places
        else:
            found.append(places)
    numbers = np.empty(len(rows), dtype=np.int32)
    for number, one in enumerate(sorted(found)):
        numbers[one] = number
    return numbers


def _parted(places: list[int], offsets: list[str], times: list[datetime | None]) -> Iterator[list[int]]:
    """Split rows where their offsets go back, if any offset has two times: else the clock of the server went back."""
    twice = len({(offsets[place], times[place]) for place in places}) > len({offsets[place] for place in places})
    one: list[int] = []
    for place in places:
        goes_on = not one or (offsets[one[-1]], times[one[-1]]) == (offsets[place], times[place])
        if twice and not goes_on and offsets[place] <= offsets[one[-1]]:
            yield one
            one = []
        one.append(place)
    if one:
        yield one
