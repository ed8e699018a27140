"""The control: a source whose positions are offsets alone. It runs in the processes that Spark starts."""

from functools import cache
from typing import Any

from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from everbrook.spark import catalogue
from everbrook.spark.catalogue import Found
from everbrook.spark.source import EverbrookDataSource


class Forgetful(EverbrookDataSource):
    """A source whose positions are offsets alone: the control."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Make a reader in a process where nothing tells incarnations apart."""
        forget()
        return super().streamReader(schema)


@cache
def forget() -> None:
    """Hide from this process which incarnation of a stream is there."""
    found = catalogue._found  # noqa: SLF001 - the product has no switch for that

    def without(info: Any) -> Found:  # noqa: ANN401
        return replace(found(info), incarnation="", created_at_ms=None)

    setattr(catalogue, "_found", without)  # noqa: B010
