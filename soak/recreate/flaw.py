"""The control of the soak, which runs in the processes that Spark starts."""

from functools import cache
from typing import Any

from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from everbrook.spark.streams import catalogue
from everbrook.spark.streams.catalogue import Found
from everbrook.spark.streams.stream_source import EverbrookDataSource


class Forgetful(EverbrookDataSource):
    """A source whose positions are offsets without incarnations."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make a reader in a process that can't tell incarnations apart."""
        forget()
        return super().streamReader(schema)


@cache
def forget() -> None:
    """Remove the incarnations from what this process learns of streams."""
    found = catalogue._found  # noqa: SLF001 - the product has no switch for that

    def without(info: Any) -> Found:  # noqa: ANN401
        return replace(found(info), incarnation="", created_at_ms=None)

    setattr(catalogue, "_found", without)  # noqa: B010
