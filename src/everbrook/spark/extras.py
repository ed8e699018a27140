"""Messages for packages that are not installed: each names the extra that installs them."""

EXTRAS = {
    "deltalake": "this needs a lake: pip install 'everbrook[lake]'",
    "psycopg": "this needs Postgres: pip install 'everbrook[postgres,spark]'",
    **dict.fromkeys(("pyspark", "pyarrow", "pandas", "numpy"), "this needs Spark: pip install 'everbrook[spark]'"),
}
