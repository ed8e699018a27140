"""SQL over tables of the lake: with DuckDB in this process, or with Spark.

A table is a view with the name of its job, and a view with the name of its folder if no other table has that name.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from everbrook.spark.jobs.model import Pipeline, PipelineMissing
from everbrook.spark.jobs.sinks import LakeSink
from everbrook.spark.jobs.supervisor import diagnose
from everbrook.spark.lake.columns import PARTITION
from everbrook.spark.lake.delta import named_files, open_table
from everbrook.spark.lake.lake_errors import LakeError
from everbrook.spark.lake.lake_table import DEAD_LETTERS, is_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from everbrook.spark.lake.files import Partition

_AT_ONCE = 1000
_FILE = "_everbrook_file"


class QueryResult(Struct, frozen=True):
    """The result of a query: the names of its columns, and its rows, which are fetched on demand."""

    names: list[str]
    rows: Iterator[tuple[Any, ...]]


class QueryFailed(LakeError):
    """An engine refuses a query. The message is its own, with the names of the tables."""


def tables_of(pipeline: Pipeline) -> dict[str, Path]:
    """Find the tables that jobs have written, by their names in SQL."""
    found: dict[str, Path] = {}
    lakes = {name: job.sink.folder(job) for name, job in pipeline.jobs.items() if isinstance(job.sink, LakeSink)}
    if not lakes:
        raise PipelineMissing(f'{pipeline.file} has no table: no job has a sink such as {{ lake = "orders" }}')
    for name, folder in _named(lakes).items():
        if is_table(folder):
            found[name] = folder
            if is_table(folder / DEAD_LETTERS):
                found[f"{name}{DEAD_LETTERS}"] = folder / DEAD_LETTERS
    if not found:
        raise PipelineMissing(f"the jobs of {pipeline.file} have written no table yet: {', '.join(lakes)}")
    return found


def _named(lakes: dict[str, Path]) -> dict[str, Path]:
    """Name tables by their jobs, and by their folders where that is unambiguous: SQL ignores case."""
    of_folders = Counter(folder.name.lower() for folder in lakes.values())
    taken = {name.lower() for name in lakes}
    by_folder = {
        folder.name: folder
        for folder in lakes.values()
        if of_folders[folder.name.lower()] == 1 and folder.name.lower() not in taken
    }
    return lakes | by_folder


@contextmanager
def ask_duckdb(pipeline: Pipeline, sql: str) -> Iterator[QueryResult]:
    """Run a query in DuckDB."""
    import duckdb

    tables = tables_of(pipeline)
    # Otherwise DuckDB would look for an unknown table among the variables of this process.
    with duckdb.connect(config={"python_enable_replacements": False}) as connection:
        for name, folder in tables.items():
            connection.register(name, open_table(folder))
        try:
            connection.execute(sql)
            if connection.description is None:
                raise QueryFailed(f"there is no query in {sql!r}; the tables are {_listed(tables)}")
            yield QueryResult(_numbered([column[0] for column in connection.description]), _fetched(connection))
        except duckdb.Error as error:
            raise QueryFailed(f"{error}; the tables are {_listed(tables)}") from error


def _numbered(names: list[str]) -> list[str]:
    """Number columns of the same name so that all names differ."""
    numbered: list[str] = []
    for name in names:
        others = (f"{name}_{number}" for number in count(1))
        free = (other for other in others if other not in names and other not in numbered)
        numbered.append(next(free) if name in numbered else name)
    return numbered


def _fetched(connection: Any) -> Iterator[tuple[Any, ...]]:
    while rows := connection.fetchmany(_AT_ONCE):
        yield from rows


@contextmanager
def ask_spark(pipeline: Pipeline, sql: str) -> Iterator[QueryResult]:
    """Run a query in a session of Spark."""
    from pyspark.errors import PySparkException

    from everbrook.spark.jobs.engine import launch

    tables = tables_of(pipeline)
    # Spark creates this folder with the first view; by default it is in the current folder.
    warehouse = {"spark.sql.warehouse.dir": str(pipeline.checkpoints / "_warehouse")}
    engine = launch(replace(pipeline.keys, spark={**warehouse, **pipeline.keys.spark}))
    try:
        for name, folder in tables.items():
            view(engine.spark, name, folder)
        found = engine.spark.sql(sql)
        yield QueryResult(_numbered(found.columns), (tuple(map(_of_utc, row)) for row in found.toLocalIterator()))
    except PySparkException as error:
        raise QueryFailed(f"{diagnose(error, '').words}; the tables are {_listed(tables)}") from error
    finally:
        engine.stop()


def _of_utc(value: Any) -> Any:
    """Return times in UTC: Spark returns them in the zone of this machine, without the zone."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def view(spark: "SparkSession", name: str, folder: Path) -> None:
    """Make a view of a table from the files that its log names, which needs no jar."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(open_table(folder).schema)
    files = named_files(folder)
    frame = _frame(spark, schema, files) if files else spark.createDataFrame([], schema)
    frame.createOrReplaceTempView(f"`{name.replace('`', '``')}`")


def _frame(spark: "SparkSession", schema: "StructType", files: "list[tuple[Path, Partition]]") -> "DataFrame":
    """Read the files of a table. Their partitions are those of the log: delta-rs names folders in another way."""
    from pyspark.sql import functions as of
    from pyspark.sql.types import StringType, StructField, StructType

    in_files = StructType([field for field in schema if field.name not in PARTITION])
    rows = spark.read.schema(in_files).parquet(*(str(path) for path, _ in files))
    of_files = StructType([StructField(_FILE, StringType()), *(schema[name] for name in PARTITION)])
    parts = spark.createDataFrame([(path.name, part.group, part.date) for path, part in files], of_files)
    found = rows.withColumn(_FILE, of.col("_metadata.file_name")).join(of.broadcast(parts), _FILE)
    return found.select(*(of.col(f"`{name.replace('`', '``')}`") for name in schema.names))


def _listed(tables: dict[str, Path]) -> str:
    return ", ".join(name if name.isidentifier() else f'"{name}"' for name in tables if DEAD_LETTERS not in name)


def encode(value: Any) -> str:
    """Write a value as JSON."""
    return msgspec.json.encode(value, enc_hook=str).decode()
