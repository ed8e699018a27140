"""What to install when a package that Spark, the lake or Postgres needs is missing."""

EXTRAS = {
    "deltalake": "this needs a lake: pip install 'everbrook[lake]'",
    "psycopg": "this needs Postgres: pip install 'everbrook[postgres,spark]'",
    **dict.fromkeys(("pyspark", "pyarrow", "pandas", "numpy"), "this needs Spark: pip install 'everbrook[spark]'"),
}
