"""Streams in Spark: a source and a sink for Structured Streaming, and sessions that know them.

    import everbrook.spark

    spark = everbrook.spark.session()
    orders = spark.readStream.format("everbrook").load("orders")

Everything below is loaded when it is first used: tasks need only a part of it.
"""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from everbrook.spark.folds.fold_query import fold_due, fold_streams
    from everbrook.spark.folds.fold_task import Folded
    from everbrook.spark.lake.lake_query import write_lake
    from everbrook.spark.postgres.table_query import write_postgres
    from everbrook.spark.progress import lag
    from everbrook.spark.progress_listener import ProgressListener
    from everbrook.spark.sessions import register, session
    from everbrook.spark.streams.stream_query import write_stream
    from everbrook.spark.streams.stream_source import EverbrookDataSource

__all__ = [
    "EverbrookDataSource",
    "Folded",
    "ProgressListener",
    "fold_due",
    "fold_streams",
    "lag",
    "register",
    "session",
    "write_lake",
    "write_postgres",
    "write_stream",
]

EXTRAS = {
    "deltalake": "this needs a lake: pip install 'everbrook[lake]'",
    "psycopg": "this needs Postgres: pip install 'everbrook[postgres,spark]'",
    **dict.fromkeys(("pyspark", "pyarrow", "pandas", "numpy"), "this needs Spark: pip install 'everbrook[spark]'"),
}
"""What to tell a user who lacks a package: the extra that installs it."""

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        ".folds.fold_task": "Folded",
        ".folds.fold_query": "fold_due fold_streams",
        ".progress": "lag",
        ".lake.lake_query": "write_lake",
        ".postgres.table_query": "write_postgres",
        ".progress_listener": "ProgressListener",
        ".sessions": "register session",
        ".streams.stream_source": "EverbrookDataSource",
        ".streams.stream_query": "write_stream",
    },
    EXTRAS,
)
