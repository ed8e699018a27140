"""Tuning of queries that write: which batches the driver writes by itself. Only tests choose others."""

from msgspec import Struct


class StreamTuning(Struct, frozen=True, kw_only=True):
    """For queries that write streams."""

    large_bytes: int = 64 * 1024 * 1024
    """Tasks append a batch that is larger than this, else the driver does."""


class TableTuning(Struct, frozen=True, kw_only=True):
    """For queries that write tables of Postgres or of the lake."""

    large_bytes: int = 4 * 1024 * 1024
    """Tasks write a batch that is larger than this, else the driver does."""


DEFAULT_TABLE_TUNING = TableTuning()
