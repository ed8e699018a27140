"""The data source `everbrook` for Spark: its name, its columns, its readers and its writers.

Spark makes an instance from the options alone, and sends the one that gave the schema to the process that makes the
readers.
"""

from functools import cached_property

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
from everbrook.spark.connection import connect
from everbrook.spark.options import SourceOptions, parse_sink, parse_source, require_batch, require_streaming
from everbrook.spark.streams.catalogue import Catalogue, open_catalogue
from everbrook.spark.streams.reader import BatchReader, stream_reader
from everbrook.spark.streams.rows import CHANGE, RAW
from everbrook.spark.streams.writer import BatchWriter, StreamWriter


class EverbrookDataSource(DataSource, metaclass=Arriving):
    """Streams as tables that grow, and tables as streams."""

    @classmethod
    def name(cls) -> str:
        return "everbrook"

    @cached_property
    def _source(self) -> SourceOptions:
        return parse_source(self.options)

    @cached_property
    def _catalogue(self) -> Catalogue:
        """The streams.

        Spark sends them on with this source, so that a batch requests only what changed since its schema.
        """
        options = self._source
        return open_catalogue(connect(options.server, options.selection.bucket), options.selection)

    def schema(self) -> StructType:
        """Return the columns where the user has given none."""
        options = self._source
        if options.envelope == "change":
            return CHANGE
        return RAW[options.value_type or self._value_type()]

    def _value_type(self) -> str:
        """Choose text for the values if all existing streams are of text or JSON."""
        self._catalogue.refresh()
        binary = any(kind_of(found.content_type) is Kind.BINARY for found in self._catalogue.streams.values())
        return "binary" if binary else "string"

    def reader(self, schema: StructType) -> DataSourceReader:
        require_batch(self._source)
        return BatchReader(self._source, schema, self._catalogue)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        require_streaming(self._source)
        return stream_reader(self._source, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's way
        return BatchWriter(parse_sink(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001
        return StreamWriter(parse_sink(self.options), schema, overwrite=overwrite)
