"""Options of a table, and the columns that a batch adds to it: both are checked before anything is written."""

from pathlib import Path

from msgspec import Struct

from everbrook.spark.lake.columns import RESCUED, Columns
from everbrook.spark.lake.files import File, Group, check_group
from everbrook.spark.lake.lake_errors import ColumnsChanged, TableMismatch
from everbrook.spark.options import InvalidOption

DELTA = "delta"
RAW, INFERRED = "raw", "inferred"
DEAD_LETTERS = "_dead_letters"
MOST_COLUMNS = 1000
_SCHEME = "file://"


def folder_of(path: str) -> Path:
    """Return the folder of a table, which is a path or the URL of a file."""
    return Path(path.removeprefix(_SCHEME))


class LakeOptions(Struct, frozen=True):
    """The options of a table."""

    path: str
    schema: str = INFERRED
    """`inferred`, `raw`, or the columns, as Spark's SQL has them."""
    evolve: bool | None = None
    """Whether new fields become columns. None: they do if the schema is `inferred`."""
    group: Group = 1
    max_columns: int = MOST_COLUMNS
    compact_after: int = 100
    """After so many added files small ones are merged. 0: never."""
    retention_hours: int = 168

    @property
    def folder(self) -> Path:
        return folder_of(self.path)

    @property
    def grows(self) -> bool:
        """Whether new fields become columns."""
        return self.schema == INFERRED if self.evolve is None else self.evolve


class BatchFiles(Struct, frozen=True):
    """The files of a batch, and the columns that the table has with them."""

    batch: int
    columns: Columns
    files: list[File]


def is_table(folder: Path) -> bool:
    return (folder / "_delta_log").is_dir()


def check_options(options: LakeOptions) -> None:
    """Refuse invalid options, before anything is written."""
    if not options.path:
        raise InvalidOption("no table is chosen: give the path of its folder")
    if "://" in options.path and not options.path.startswith(_SCHEME):
        raise InvalidOption(f"path must be a folder that driver and workers share, got {options.path!r}")
    if options.schema == RAW and options.evolve:
        raise InvalidOption("evolve is about fields, which schema='raw' does not read")
    if options.max_columns < 1 or options.compact_after < 0 or options.retention_hours < 0:
        raise InvalidOption("max_columns must be above 0, and compact_after and retention_hours not below 0")
    check_group(options.group)


def check_format(format_: str) -> None:
    """Refuse tables of another format. For Parquet files there is Spark's own sink."""
    if format_ == "parquet":
        raise InvalidOption(
            "format='parquet' is not supported: the lake writes Delta tables, whose files are Parquet. For plain "
            "Parquet files use Spark's own file sink: df.writeStream.format('parquet')"
        )
    if format_ != DELTA:
        raise InvalidOption(f"format must be 'delta', got {format_!r}")


def require_apart(folder: Path) -> None:
    """Refuse a folder within another table, which would treat the files as its own."""
    outer = next((path for path in folder.absolute().parents if is_table(path)), None)
    if outer is not None:
        raise TableMismatch(f"{folder} is within the table {outer}: give a path beside it")


def new_columns(options: LakeOptions, there: Columns, written: Columns) -> Columns:
    """Return the columns of a batch that the table lacks. Refuse those that another writer has added otherwise."""
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
    """Refuse columns that the table has with another type, and return those that it lacks."""
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
