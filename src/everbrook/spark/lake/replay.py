"""The options of a replay, and its progress: which table is read, and which part of its streams is next.

The table is pinned to a version before anything is read. Its streams are split into buckets by a hash of their names. A
batch has one bucket, so all rows of a stream are in one batch.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct

from everbrook.spark.lake.lake_table import folder_of
from everbrook.spark.options import BATCH_BYTES, GivenOptions, InvalidOption, Spelling, one_of, parse_count, parse_names

BUCKET, BUCKETS, PIN, SIZE = "bucket", "of", "pin", "bytes"
_DROPPED = ("streamColumn", "valueColumn")


class Incarnations(StrEnum):
    """Which rows are read of a stream that was deleted and created again."""

    LATEST = "latest"
    ALL = "all"


class ReplayOptions(Struct, frozen=True):
    """Which table is read, and how its rows become messages."""

    path: str
    version: int | None = None
    order_by: tuple[str, ...] = ()
    batch_bytes: int = BATCH_BYTES
    incarnations: Incarnations | None = None
    """None: refuse a table in which a stream has several incarnations."""

    @property
    def folder(self) -> Path:
        return folder_of(self.path)


def parse_replay(options: Mapping[str, str], spelling: Spelling | None = None) -> ReplayOptions:
    """Read the options of the source."""
    given = GivenOptions(options, of="everbrook_lake source", spelling=spelling)
    dropped = next((name for name in _DROPPED if given.text(name) is not None), None)
    if dropped is not None:
        raise InvalidOption(
            f"{given.spelled(dropped)} is not supported: everbrook_lake reads tables that write_lake wrote, which name "
            "their streams and messages. Write other rows with spark.read.parquet(path).select('stream', 'value')"
            ".write.format('everbrook')"
        )
    parsed = ReplayOptions(
        given.text("path") or "",
        given.optional("version", _parse_version),
        given.parsed("orderBy", parse_names, ()),
        given.parsed("batchBytes", parse_count, BATCH_BYTES),
        given.optional("incarnations", _parse_incarnations),
    )
    given.require_known()
    if not parsed.path:
        raise InvalidOption("no table is chosen: give the path of its folder")
    return parsed


def _parse_incarnations(text: str) -> Incarnations:
    return Incarnations(one_of(*Incarnations)(text))


def _parse_version(text: str) -> int:
    if text.isascii() and text.isdecimal():
        return int(text)
    raise ValueError("must be the number of a version")


def bytes_left(progress: Any) -> int | None:
    """Return how many bytes of a table were not read yet, by the progress of the last batch."""
    for source in getattr(progress, "sources", ()):
        try:
            position = json.loads(source.endOffset or "null")
        except ValueError:
            continue
        if isinstance(position, dict) and PIN in position:
            left = position[BUCKETS] - position[BUCKET]
            return int(position[SIZE] * left // position[BUCKETS])
    return None
