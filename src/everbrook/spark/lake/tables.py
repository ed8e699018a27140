"""What the two kinds of tables have in common: how a batch becomes part of one, once.

A batch is written to files that no reader knows of, and then committed at one moment, together with its number. A batch
whose number is there is done, whoever asks for it again. What a kill has left of another is cleared at the next start.
"""

from pathlib import Path
from typing import Protocol

from msgspec import Struct

from everbrook.spark.given import InvalidOption
from everbrook.spark.lake.columns import RESCUED, Columns
from everbrook.spark.lake.errors import ColumnsChanged, TableMismatch
from everbrook.spark.lake.files import File
from everbrook.spark.lake.groups import Group, check_group

DELTA, PARQUET = "delta", "parquet"
FORMATS = (DELTA, PARQUET)
RAW, INFERRED = "raw", "inferred"
DEAD_LETTERS = "_dead_letters"
SCHEMA = "_schema.json"
MOST_COLUMNS = 1000
_SCHEME = "file://"


class LakeOptions(Struct, frozen=True):
    """What is written where. It travels to tasks."""

    path: str
    format: str = DELTA
    schema: str = INFERRED
    """`inferred`, `raw`, or the columns, as Spark's SQL has them."""
    evolve: bool | None = None
    """Whether new fields become columns: unless said otherwise, where no columns are given."""
    group: Group = 1
    max_columns: int = MOST_COLUMNS
    compact_after: int = 100
    """How many files may be added before small ones are put together. 0: never."""
    retention_hours: int = 168

    @property
    def folder(self) -> Path:
        """Where the table is."""
        return Path(self.path.removeprefix(_SCHEME))

    @property
    def grows(self) -> bool:
        """Whether new fields become columns."""
        return self.schema == INFERRED if self.evolve is None else self.evolve


class Written(Struct, frozen=True):
    """The files of a batch, the folder that they were written below, and the columns that the table has with them."""

    batch: int
    staging: Path
    columns: Columns
    files: list[File]


class Table(Protocol):
    """A table that one query writes."""

    def prepare(self, columns: Columns) -> None:
        """Make the table, or see that it is one which can have these columns."""

    def recover(self) -> None:
        """Finish what a kill has left decided, and clear what it has left undecided."""

    def columns(self) -> Columns:
        """Give the columns of fields that the table has."""

    def has(self, batch: int) -> bool:
        """Tell whether a batch is in the table."""

    def staging(self, batch: int) -> Path:
        """Give the folder that the files of a batch are written below."""

    def commit(self, written: Written) -> None:
        """Make files part of the table, and note the batch, at one moment."""

    def loose_files(self) -> int:
        """Count small files beyond the first of each partition."""

    def compact(self, retention_hours: int) -> None:
        """Put small files together, and drop what no reader needs any more. The rows stay as they are."""


def check_options(options: LakeOptions) -> None:
    """Refuse what can't be, before anything is written."""
    if not options.path:
        raise InvalidOption("which table? Give the path of its folder")
    if "://" in options.path and not options.path.startswith(_SCHEME):
        raise InvalidOption(f"path must be a folder that driver and workers share, got {options.path!r}")
    if options.format not in FORMATS:
        raise InvalidOption(f"format must be 'delta' or 'parquet', got {options.format!r}")
    if options.schema == RAW and options.evolve:
        raise InvalidOption("evolve is about fields, which schema='raw' does not read")
    if options.max_columns < 1 or options.compact_after < 0 or options.retention_hours < 0:
        raise InvalidOption("max_columns must be above 0, and compact_after and retention_hours not below 0")
    check_group(options.group)


def require_apart(folder: Path) -> None:
    """Refuse a folder within another table, which would take its files for its own."""
    around = (path for path in folder.absolute().parents if (path / "_delta_log").is_dir() or (path / SCHEMA).exists())
    outer = next(around, None)
    if outer is not None:
        raise TableMismatch(f"{folder} is within the table {outer}: give a path beside it")


def new_columns(options: LakeOptions, there: Columns, written: Columns) -> Columns:
    """Give the columns of a batch that the table lacks, unless it has one of them otherwise by now."""
    known = {column.name.lower(): column for column in there}
    for column in written:
        found = known.get(column.name.lower(), column)
        if found != column:
            raise ColumnsChanged(
                f"the table {options.path} has got the column {found.name!r} of {found.type} from another writer, and "
                f"a batch was to add {column.name!r} of {column.type}. No message is lost: started again, the query "
                "writes the batch with the column that is there"
            )
    return tuple(column for column in written if column.name.lower() not in known)


def require_columns(options: LakeOptions, there: Columns, wanted: Columns) -> Columns:
    """Refuse columns that the table has otherwise, and give those that it lacks."""
    known = {column.name: column for column in there}
    for column in wanted:
        found = known.get(column.name)
        if found is not None and found.type != column.type:
            raise TableMismatch(
                f"the column {column.name!r} of the table {options.path} is {found.type} already, and the schema says "
                f"{column.type}: give another path, or that type"
            )
    if (RESCUED in known) != any(column.name == RESCUED for column in wanted):
        raise TableMismatch(
            f"the table {options.path} has {'fields' if RESCUED in known else 'whole messages'} in its columns, and "
            "the schema says otherwise: give another path"
        )
    return tuple(column for column in wanted if column.name not in known)
