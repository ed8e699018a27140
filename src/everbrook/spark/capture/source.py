"""The data source `everbrook_postgres`, as Spark knows it. It holds no connection."""

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from everbrook.spark.arrival import Arriving
from everbrook.spark.capture.columns import SCHEMAS
from everbrook.spark.capture.options import parse_capture
from everbrook.spark.capture.reader import CaptureReader


class PostgresDataSource(DataSource, metaclass=Arriving):
    """Changes of tables of Postgres, as messages of streams."""

    @classmethod
    def name(cls) -> str:
        """Give the name of the format."""
        return "everbrook_postgres"

    def schema(self) -> StructType:
        """Give the columns."""
        return SCHEMAS[parse_capture(self.options).envelope]

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make what reads micro-batches."""
        return CaptureReader(parse_capture(self.options))
