"""Streams in Spark: a source and a sink for Structured Streaming, and sessions that know them.

    import everbrook.spark

    spark = everbrook.spark.session()
    orders = spark.readStream.format("everbrook").load("orders")

Everything below is loaded when it is first used: tasks need only a part of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everbrook.spark.progress import ProgressListener, lag
    from everbrook.spark.sessions import register, session
    from everbrook.spark.source import EverbrookDataSource
    from everbrook.spark.writing import write_stream

_PLACES = {
    "EverbrookDataSource": "source",
    "ProgressListener": "progress",
    "lag": "progress",
    "register": "sessions",
    "session": "sessions",
    "write_stream": "writing",
}

__all__ = ["EverbrookDataSource", "ProgressListener", "lag", "register", "session", "write_stream"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever has that name
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] in {"pyspark", "pyarrow", "pandas", "numpy"}:
            raise ModuleNotFoundError("this needs Spark: pip install 'everbrook[spark]'", name=error.name) from error
        raise
    globals()[name] = value
    return value
