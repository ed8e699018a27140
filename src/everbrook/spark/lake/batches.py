"""Batches of a query, written to a table: small ones by the driver, which costs the least time, large ones by tasks.

Neither depends on how rows are parted or in which order they come: a batch is committed as a whole, or not at all, and
its number with it.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from msgspec.structs import replace
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from everbrook.spark.arrival import as_function
from everbrook.spark.lake import dead_letters as letters
from everbrook.spark.lake.columns import Columns, settle
from everbrook.spark.lake.delta import DeltaLake
from everbrook.spark.lake.files import File
from everbrook.spark.lake.queries import held, introduce
from everbrook.spark.lake.tables import DEAD_LETTERS, LakeOptions, Written, require_apart
from everbrook.spark.lake.tasks import REPORT, Report, TaskWriting, Work, parse_report, write_rows
from everbrook.spark.plans import incarnations_of, size_of_batch
from everbrook.spark.tuning import DEFAULT_TABLE_TUNING, TableTuning


class BatchWriting:
    """Writes the batches of one query."""

    def __init__(
        self,
        options: LakeOptions,
        columns: Columns,
        dead_letters: letters.DeadLetterOptions,
        on_dead_letters: Callable[[int], None] | None = None,
        tuning: TableTuning = DEFAULT_TABLE_TUNING,
    ) -> None:
        self._options = options
        self._tuning = tuning
        self._columns = columns
        self._dead_letters = dead_letters
        self._on_dead_letters = on_dead_letters
        self._begun: Future[StreamingQuery] = Future()
        self._tables: tuple[DeltaLake, DeltaLake] | None = None
        self._last_bytes: int | None = None
        self._files_added = 0
        self._writing = threading.Lock()

    def begin(self, query: StreamingQuery) -> None:
        """Tell which query it is, which is known once it runs. The first batch waits for it."""
        self._begun.set_result(query)

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch, unless it is there."""
        query = self._begun.result()
        with self._writing, held(self._options.folder, str(query.id)):
            rows, refused = self._open(str(query.id), batch_id)
            if not rows.has(batch_id):
                self._write(query, batch, batch_id, rows, refused)

    def prepare(self) -> None:
        """Make the table and that of dead letters, or say why they can't be written, before the query begins."""
        require_apart(self._options.folder)
        for table, columns in zip(_tables(self._options, ""), (self._columns, letters.COLUMNS), strict=True):
            table.prepare(columns)

    def _open(self, query: str, batch_id: int) -> tuple[DeltaLake, DeltaLake]:
        """See that the query may write here, and clear what a kill has left, once."""
        if self._tables is None:
            rows, refused = _tables(self._options, query)
            introduce(self._options.folder, query, batch_id, known=rows.has(0))
            for table in (rows, refused):
                table.recover()
            self._files_added = rows.loose_files() if self._options.compact_after else 0
            self._tables = rows, refused
        return self._tables

    def _write(
        self, query: StreamingQuery, batch: DataFrame, batch_id: int, rows: DeltaLake, refused: DeltaLake
    ) -> None:
        size_bytes = size_of_batch(query)
        expected = self._last_bytes if size_bytes is None else size_bytes
        work = Work(
            f"{query.id}-{batch_id:09d}",
            str(self._options.folder),
            str(self._options.folder / DEAD_LETTERS),
            rows.columns(),
            self._options.grows,
            self._options.group,
            self._options.max_columns,
            incarnations_of(query),
        )
        reports, work = self._settled(batch, work, large=expected is None or expected > self._tuning.large_bytes)
        self._last_bytes = sum(report.size_bytes for report in reports)
        self._commit(str(query.id), batch_id, work, reports, rows, refused)

    def _settled(self, batch: DataFrame, work: Work, *, large: bool) -> tuple[list[Report], Work]:
        """Write files whose columns are all the same, also where tasks, or parts of one, have found different ones."""
        run = _by_tasks if large else _here
        reports = run(batch, work)
        found = [report.columns for report in reports]
        columns = settle(work.columns, found, self._options.max_columns)
        if not any(report.widened for report in reports) and all(set(each) <= set(columns) for each in found):
            return reports, replace(work, columns=columns)
        _remove(work, reports)
        again = replace(work, columns=columns, evolve=False)
        return run(batch, again), again

    def _commit(
        self, query: str, batch_id: int, work: Work, reports: list[Report], rows: DeltaLake, refused: DeltaLake
    ) -> None:
        put_aside = [file for report in reports for file in report.letters]
        if put_aside:
            self._put_aside(query, Written(batch_id, letters.COLUMNS, put_aside), refused)
        files = [file for report in reports for file in report.files]
        if files:
            rows.commit(Written(batch_id, work.columns, files))
            self._files_added += len(files)
            self._compact(rows)

    def _put_aside(self, query: str, written: Written, refused: DeltaLake) -> None:
        options = self._dead_letters
        folder = self._options.folder / DEAD_LETTERS
        if options.stream is not None:
            letters.publish(options, options.stream, query, folder, written)
        elif refused.has(written.batch):
            _unlink(folder, written.files)
        else:
            refused.commit(written)
        if self._on_dead_letters is not None:
            self._on_dead_letters(sum(file.rows for file in written.files))

    def _compact(self, rows: DeltaLake) -> None:
        if self._options.compact_after and self._files_added >= self._options.compact_after:
            rows.compact(self._options.retention_hours)
            self._files_added = 0


def _tables(options: LakeOptions, query: str) -> tuple[DeltaLake, DeltaLake]:
    beside = LakeOptions(f"{options.path}/{DEAD_LETTERS}", group=options.group)
    return DeltaLake(options, query), DeltaLake(beside, query)


def _here(batch: DataFrame, work: Work) -> list[Report]:
    return [write_rows(work, batch.toArrow().to_batches())]


def _by_tasks(batch: DataFrame, work: Work) -> list[Report]:
    told = batch.mapInArrow(as_function(TaskWriting(work)), REPORT).collect()
    return [parse_report(bytes(row.report)) for row in told]


def _remove(work: Work, reports: list[Report]) -> None:
    """Remove files of an attempt that is made again."""
    for report in reports:
        for folder, files in ((work.rows, report.files), (work.letters, report.letters)):
            _unlink(Path(folder), files)


def _unlink(folder: Path, files: list[File]) -> None:
    for file in files:
        (folder / file.path).unlink(missing_ok=True)
