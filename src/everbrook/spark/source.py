"""The data source `everbrook`, as Spark knows it: what it is called, its columns, its readers and its writers.

Spark makes one of these wherever it needs one, from nothing but the options; it holds no connection.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from everbrook.client.content import Kind, kind_of
from everbrook.spark.arrival import Arriving
from everbrook.spark.batch_reader import BatchReader
from everbrook.spark.catalogue import open_catalogue
from everbrook.spark.columns import CHANGE, RAW
from everbrook.spark.connection import connect
from everbrook.spark.options import SourceOptions, parse_sink, parse_source, require_batch, require_streaming
from everbrook.spark.stream_reader import stream_reader
from everbrook.spark.writers import BatchWriter, StreamWriter


class EverbrookDataSource(DataSource, metaclass=Arriving):
    """Streams as tables that grow, and tables as streams."""

    @classmethod
    def name(cls) -> str:
        """Give the name of the format."""
        return "everbrook"

    def schema(self) -> StructType:
        """Give the columns where the user has given none."""
        options = parse_source(self.options)
        if options.envelope == "change":
            return CHANGE
        return RAW[options.value_type or _value_type(options)]

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make what reads a batch."""
        options = parse_source(self.options)
        require_batch(options)
        return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Make what reads micro-batches."""
        options = parse_source(self.options)
        require_streaming(options)
        return stream_reader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's way
        """Make what writes a batch."""
        return BatchWriter(parse_sink(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001, N802
        """Make what writes micro-batches."""
        return StreamWriter(parse_sink(self.options), schema, overwrite=overwrite)


def _value_type(options: SourceOptions) -> str:
    """Choose text for the values if all streams that are there now are of text or JSON."""
    catalogue = open_catalogue(connect(options.server, options.selection.bucket), options.selection)
    catalogue.refresh()
    binary = any(kind_of(found.content_type) is Kind.BINARY for found in catalogue.streams.values())
    return "binary" if binary else "string"
