"""Streams as tables of a lake: Delta tables and folders of Parquet, written exactly once, and back into streams."""
