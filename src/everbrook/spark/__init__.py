"""Streams in Spark: a source and a sink for Structured Streaming, and sessions that know them.

    import everbrook.spark

    spark = everbrook.spark.session()
    orders = spark.readStream.format("everbrook").load("orders")

Everything below is loaded when it is first used: tasks need only a part of it.
"""

from typing import TYPE_CHECKING

from everbrook.spark.lazily import lazily

if TYPE_CHECKING:
    from everbrook.spark.folds.functions import Folded
    from everbrook.spark.folds.queries import fold_due, fold_streams
    from everbrook.spark.lags import lag
    from everbrook.spark.lake.writing import write_lake
    from everbrook.spark.postgres.writing import write_postgres
    from everbrook.spark.progress import ProgressListener
    from everbrook.spark.sessions import register, session
    from everbrook.spark.source import EverbrookDataSource
    from everbrook.spark.writing import write_stream

_PLACES = {
    "EverbrookDataSource": "source",
    "Folded": "folds.functions",
    "ProgressListener": "progress",
    "fold_due": "folds.queries",
    "fold_streams": "folds.queries",
    "lag": "lags",
    "register": "sessions",
    "session": "sessions",
    "write_lake": "lake.writing",
    "write_postgres": "postgres.writing",
    "write_stream": "writing",
}

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

__getattr__ = lazily(__name__, _PLACES)
