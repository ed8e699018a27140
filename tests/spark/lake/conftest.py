"""Tables of the lake, one for each test."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.lake.lake_queries import Lake


@pytest.fixture
def lake(spark: "SparkSession", server: str, prefix: str, tmp_path: Path) -> "Lake":
    """A query from the streams of a test to a table."""
    from tests.spark.lake.lake_queries import Lake  # noqa: PLC0415 - only for tests that need Spark

    return Lake(spark, server, prefix, tmp_path)
