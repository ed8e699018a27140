"""Streams as tables: Arrow, and through it pandas, polars and DuckDB. What is in here needs pyarrow.

The rule: no value is changed to make it fit. What has no one type is text.
"""
