"""Delta tables: the log of the table names its files and its batches, with one commit for each batch.

Files that the log does not name do not count, so the files of a batch are written into the folder of the table. A batch
whose number is in the log is done, whichever run of the query writes it again. For Delta the query is an application,
and a batch is one of its transactions. New columns are added in a commit before: they are empty then, and it does not
matter if the batch comes later or never.

A run of the query removes the files that an earlier run has left. To remove nothing of a run that is still alive, it
registers in the log first: a commit of the earlier run is refused from then on, by Delta if both happen at once.

A table with a constraint, with a column that is not nullable or is computed, or with other names in its files is
refused: a writer would have to check every row, and tables of the lake take any message.
"""

import json
import logging
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from everbrook.spark.lake.columns import (
    DATE,
    GROUP,
    INCARNATION,
    PARTITION,
    Column,
    Columns,
    columns_in,
    lacks_incarnations,
    own_fields,
    table_schema,
)
from everbrook.spark.lake.files import SMALL_BYTES, File, Partition
from everbrook.spark.lake.lake_errors import LakeUnwritable, RunSuperseded, TableMismatch, explained, require_there
from everbrook.spark.lake.lake_table import BatchFiles, LakeOptions, new_columns, require_columns
from everbrook.spark.options import InvalidOption

_CONSTRAINT = "delta.constraints."
_MAPPING = "delta.columnMapping.mode"
_COMPUTED = ("delta.invariants", "delta.generationExpression", "delta.identity.start")
logger = logging.getLogger(__name__)
_ATTEMPTS = 5
_OWN = re.compile(rf"{GROUP}=[^/]*/{DATE}=[^/]*/[0-9a-f-]{{36}}-\d{{9,}}-[0-9a-f]{{32}}\.parquet")
_CHECKPOINT_EVERY = {"delta.checkpointInterval": "20"}


def action_of(file: File) -> AddAction:
    """Make the action of the log that adds a file.

    Its statistics have no bounds of columns: where some columns have bounds and others none, delta-rs takes the
    missing ones for null, and a filter on such a column passes over the file. Parquet has bounds of its own.
    """
    partition = {
        GROUP: file.partition.group,
        DATE: None if file.partition.date is None else file.partition.date.isoformat(),
    }
    stats = msgspec.json.encode({"numRecords": file.rows}).decode()
    return AddAction(file.path, file.size_bytes, partition, int(time.time() * 1000), data_change=True, stats=stats)


def require_plain(folder: Path, table: DeltaTable) -> None:
    """Refuse a table that promises more than the columns of its rows."""
    promise = next(_promises(table.metadata().configuration, table.schema()), None)
    if promise is not None:
        raise TableMismatch(
            f"the table {folder} has {promise}, which messages may violate: nothing was written. Remove it, or "
            "give another path"
        )


def _promises(configuration: dict[str, str], schema: Schema) -> Iterator[str]:
    for name, value in configuration.items():
        if name.startswith(_CONSTRAINT):
            yield f"the constraint {name.removeprefix(_CONSTRAINT)!r} ({value})"
        elif name == _MAPPING and value != "none":
            yield f"columns that are called otherwise in its files ({_MAPPING} is {value!r})"
    for field in json.loads(schema.to_json())["fields"]:
        if not field["nullable"]:
            yield f"the column {field['name']!r}, which may not be null"
        elif any(name in field["metadata"] for name in _COMPUTED):
            yield f"the column {field['name']!r}, whose values are computed or checked"


class DeltaLake:
    """A Delta table, as one query writes it."""

    def __init__(self, options: LakeOptions, query: str) -> None:
        self._options = options
        self.folder = options.folder
        self.query = query
        self._app = f"everbrook-{query}"
        self._runs = f"{self._app}-runs"
        self._run: int | None = None
        self._opened: DeltaTable | None = None

    def prepare(self, columns: Columns) -> None:
        """Create the table, or check that an existing one can have these columns."""
        with explained(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            if not DeltaTable.is_deltatable(str(self.folder)):
                self._require_empty()
                self._create(columns)
        table = self._table()
        if tuple(table.metadata().partition_columns) != PARTITION:
            raise TableMismatch(
                f"{self.folder} is a Delta table of another writer: it is partitioned by "
                f"{table.metadata().partition_columns}, and not by {list(PARTITION)}"
            )
        require_plain(self.folder, table)
        self._add_incarnations(table)
        self._add_columns(table, require_columns(self._options, columns_of(table), columns))

    def recover(self) -> None:
        """Remove files of batches that this query began and never committed, once no other run can commit them."""
        # Registered first: from now on no earlier run can commit files, so it is safe to remove them.
        self._begin_run()
        done = self._done(self._table())
        for path in self.folder.glob(f"{GROUP}=*/{DATE}=*/{self.query}-*.parquet"):
            if int(path.name[len(self.query) + 1 :].partition("-")[0]) > done:
                path.unlink(missing_ok=True)

    def columns(self) -> Columns:
        """Return the columns of the table that hold fields."""
        return columns_of(self._table())

    def has(self, batch: int) -> bool:
        return self._done(self._table()) >= batch

    def commit(self, written: BatchFiles) -> None:
        """Add files to the table, and record the batch, in one commit."""
        for attempt in range(1, _ATTEMPTS + 1):
            table = self._table()
            if self._done(table) >= written.batch:
                return
            try:
                self._add_columns(table, new_columns(self._options, columns_of(table), written.columns))
                # Columns are added by a commit of their own, and another writer may have added some in between.
                table = self._table()
                new_columns(self._options, columns_of(table), written.columns)
                self._append(table, written)
            except CommitFailedError:
                if attempt == _ATTEMPTS:
                    raise
            else:
                return

    def compact(self, retention_hours: int) -> None:
        """Merge small files, and delete those that the table has not named for that long.

        Of files that it has never named, only those with the names of its own files are deleted: failed tasks have left
        them. Other files in its folder belong to others.
        """
        table = self._table()
        with explained(self.folder):
            try:
                table.optimize.compact()
                table.vacuum(retention_hours, dry_run=False, enforce_retention_duration=False, full=False)
                self._drop_left(retention_hours)
            except CommitFailedError:
                pass  # another writer committed first: the next compaction does it
            except DeltaError as error:  # the rows are stored, and small files are only slower
                logger.warning("small files of the table %s can't be merged: %s", self.folder, error)

    def _drop_left(self, retention_hours: int) -> None:
        named = {path for path, _ in named_files(self.folder)}
        unknown = self._table().vacuum(retention_hours, dry_run=True, enforce_retention_duration=False, full=True)
        for path in (self.folder / path for path in unknown if _OWN.fullmatch(path)):
            if path not in named:
                path.unlink(missing_ok=True)

    def loose_files(self) -> int:
        """Count small files beyond the first of each partition."""
        actions = pa.table(self._table().get_add_actions(flatten=True)).to_pylist()
        small = (action for action in actions if action["size_bytes"] < SMALL_BYTES)
        counts = Counter((action[f"partition.{GROUP}"], action[f"partition.{DATE}"]) for action in small)
        return sum(count - 1 for count in counts.values())

    def _table(self) -> DeltaTable:
        """Return the table as it is now.

        Only what came since the last look is read: a large table takes time to open.
        """
        if self._opened is None:
            self._opened = open_delta(self.folder)
        else:
            self._opened.update_incremental()
        return self._opened

    def _done(self, table: DeltaTable) -> int:
        return _noted(table, self._app)

    def _begin_run(self) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            table = self._table()
            run = _noted(table, self._runs) + 1
            try:
                self._log(table, [], [Transaction(self._runs, run)])
            except CommitFailedError:
                if attempt == _ATTEMPTS:
                    raise
            else:
                self._run = run
                return

    def _require_run(self, table: DeltaTable) -> None:
        if self._run is not None and _noted(table, self._runs) != self._run:
            raise RunSuperseded(
                f"another run of this query writes the table {self.folder}: let one of them go on with the checkpoint"
            )

    def _require_empty(self) -> None:
        if any(not path.name.startswith((".", "_")) for path in self.folder.iterdir()):
            raise TableMismatch(f"{self.folder} is no Delta table, and is not empty: give another path")

    def _create(self, columns: Columns) -> None:
        try:
            DeltaTable.create(
                str(self.folder),
                format_schema(columns),
                mode="ignore",
                partition_by=list(PARTITION),
                configuration=_CHECKPOINT_EVERY,
            )
        except DeltaError as error:
            raise LakeUnwritable(f"can't make the table {self.folder}: {error}") from error

    def _add_incarnations(self, table: DeltaTable) -> None:
        """Add the column that a table of an earlier version lacks. It is null in existing rows."""
        schema = pa.schema(table.schema().to_arrow())
        if not lacks_incarnations(schema):
            return
        if INCARNATION in map(str.lower, schema.names):
            raise TableMismatch(
                f"the table {self.folder} has a column {INCARNATION!r} for a field of messages, and that name is for "
                "the incarnation of the stream now: give another path"
            )
        self._add_fields(table, [field for field in own_fields() if field.name == INCARNATION])

    def _add_columns(self, table: DeltaTable, new: Sequence[Column]) -> None:
        self._add_fields(table, [column.arrow() for column in new])

    def _add_fields(self, table: DeltaTable, new: Sequence[pa.Field]) -> None:
        if new:
            table.alter.add_columns(list(Schema.from_arrow(pa.schema(new)).fields))

    def _append(self, table: DeltaTable, written: BatchFiles) -> None:
        require_plain(self.folder, table)
        self._require_run(table)
        require_there(self.folder, [file.path for file in written.files])
        runs = [] if self._run is None else [Transaction(self._runs, self._run)]
        self._log(table, [action_of(file) for file in written.files], [Transaction(self._app, written.batch), *runs])

    def _log(self, table: DeltaTable, actions: Sequence[AddAction], notes: list[Transaction]) -> None:
        """Commit files and transactions to the log, unless another writer has committed one of these meanwhile."""
        with explained(self.folder):
            try:
                table.create_write_transaction(
                    [*actions],
                    "append",
                    table.schema(),
                    list(PARTITION),
                    commit_properties=CommitProperties(app_transactions=notes),
                )
            except CommitFailedError:
                raise
            except DeltaError as error:
                raise LakeUnwritable(f"can't commit to the table {self.folder}: {error}") from error


def _noted(table: DeltaTable, app: str) -> int:
    version = table.transaction_version(app)
    return -1 if version is None else version


def open_delta(folder: Path, version: int | None = None) -> DeltaTable:
    """Open a table, of now or of a version."""
    try:
        return DeltaTable(str(folder), version=version)
    except TableNotFoundError as error:
        raise TableMismatch(
            f"{folder} is no Delta table: {error}. Parquet files go into streams with "
            "spark.read.parquet(path).write.format('everbrook')"
        ) from error
    except DeltaError as error:
        if version is None:
            raise
        raise TableMismatch(f"{folder} can't be read at version {version}: {error}") from error


def open_table(folder: Path) -> Any:
    """Open a table as it is now, as a dataset of Arrow."""
    return open_delta(folder).to_pyarrow_dataset()


def named_files(folder: Path) -> list[tuple[Path, Partition]]:
    """Return the files that a table names now, with the partition of each."""
    actions = pa.table(open_delta(folder).get_add_actions(flatten=True)).to_pylist()
    return [
        (folder / unquote(each["path"]), Partition(each[f"partition.{GROUP}"], each[f"partition.{DATE}"]))
        for each in actions
    ]


def format_schema(columns: Columns) -> Schema:
    """Return the schema of a table, or raise that it can't have such columns."""
    try:
        return Schema.from_arrow(table_schema(columns))
    except Exception as error:  # deltalake raises its own errors for types that it does not support
        raise InvalidOption(f"no table can have these columns: {error}") from error


def columns_of(table: DeltaTable) -> Columns:
    """Return the columns of a table that hold fields."""
    return columns_in(pa.schema(table.schema().to_arrow()))
