"""Streams in Spark: a source and a sink for Structured Streaming, and sessions that know them.

    import everbrook.spark

    spark = everbrook.spark.session()
    orders = spark.readStream.format("everbrook").load("orders")

Everything below is loaded when it is first used: tasks need only a part of it.
"""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports
from everbrook.spark.extras import EXTRAS

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

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        ".folds.functions": "Folded",
        ".folds.queries": "fold_due fold_streams",
        ".lags": "lag",
        ".lake.writing": "write_lake",
        ".postgres.writing": "write_postgres",
        ".progress": "ProgressListener",
        ".sessions": "register session",
        ".source": "EverbrookDataSource",
        ".writing": "write_stream",
    },
    EXTRAS,
)
