"""Streams in Spark: the source and the sink `everbrook`, which read and write streams exactly once.

What several sinks share is in `sinks`.
"""
