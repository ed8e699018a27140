"""Folders of Parquet, which any reader of Parquet takes as they are.

There is no log that says which files count: what is in place does. So the files of a batch wait in a folder that
readers pass over (its name begins with an underscore), until a note names all of them. From then on the batch is
done; they are moved into place one by one, and whoever starts next goes on with that. A reader may see a part of a
batch while it is moved, which readers of a Delta table never do.
"""

import shutil
from pathlib import Path
from uuid import uuid4

import msgspec
import pyarrow as pa
from deltalake import Schema
from msgspec import Struct

from everbrook.spark.lake.columns import DATE, GROUP, Columns, columns_in
from everbrook.spark.lake.delta import format_schema
from everbrook.spark.lake.errors import TableMismatch, require_there, told_of
from everbrook.spark.lake.files import SMALL_BYTES
from everbrook.spark.lake.merging import merge_small
from everbrook.spark.lake.tables import SCHEMA, LakeOptions, Written, new_columns, require_columns

_STAGING, _NOTES, _COMPACTION = "_staging", "_batches", "compaction"


class Note(Struct, frozen=True):
    """What was decided last: the batch, where its files wait, those that come into place, and those that go."""

    batch: int
    staging: str
    files: list[str]
    gone: list[str] = []


class ParquetFolder:
    """A folder of Parquet, as one query writes it."""

    def __init__(self, options: LakeOptions, query: str) -> None:
        self._options = options
        self._folder = options.folder
        self._query = query
        self._stagings = self._folder / _STAGING / query

    def prepare(self, columns: Columns) -> None:
        """Make the folder, or see that it can have these columns."""
        with told_of(self._folder):
            if not (self._folder / SCHEMA).exists():
                self._require_empty()
                self._write_schema(columns)
            there = self.columns()
            new = require_columns(self._options, there, columns)
            if new:
                self._write_schema((*there, *new))

    def recover(self) -> None:
        """Do what was decided, and clear what was not."""
        with told_of(self._folder):
            for name in (self._query, _COMPACTION):
                self._finish(name)
            shutil.rmtree(self._stagings, ignore_errors=True)

    def columns(self) -> Columns:
        """Give the columns of fields that the table has."""
        return columns_in(read_schema(self._folder))

    def has(self, batch: int) -> bool:
        """Tell whether a batch is decided on, and see that its files are in place."""
        note = self._note(self._query)
        if note is None or note.batch < batch:
            return False
        with told_of(self._folder):
            self._finish(self._query)
        return True

    def staging(self, batch: int) -> Path:
        """Give a folder of this attempt's own."""
        return self._stagings / f"{batch}-{uuid4().hex}"

    def commit(self, written: Written) -> None:
        """Name the files, and move them into place."""
        with told_of(self._folder):
            there = self.columns()
            new = new_columns(self._options, there, written.columns)
            if new:
                self._write_schema((*there, *new))
            require_there(written.staging, [file.path for file in written.files])
            staging = str(written.staging.relative_to(self._folder))
            self._write_note(self._query, Note(written.batch, staging, [file.path for file in written.files]))
            self._finish(self._query)

    def compact(self, retention_hours: int) -> None:  # noqa: ARG002 - nobody can ask for what was before
        """Put small files of a partition together. The note names what comes and what goes."""
        with told_of(self._folder):
            for partition in sorted(self._folder.glob(f"{GROUP}=*/{DATE}=*")):
                staging = self._stagings / f"{_COMPACTION}-{uuid4().hex}"
                merged = merge_small(self._folder, partition, staging, self.columns())
                if merged is not None:
                    path, gone = merged
                    self._write_note(_COMPACTION, Note(0, str(staging.relative_to(self._folder)), [path], gone))
                    self._finish(_COMPACTION)

    def loose_files(self) -> int:
        """Count small files beyond the first of each partition."""
        partitions = self._folder.glob(f"{GROUP}=*/{DATE}=*")
        small = (sum(path.stat().st_size < SMALL_BYTES for path in each.glob("*.parquet")) for each in partitions)
        return sum(max(count - 1, 0) for count in small)

    def _require_empty(self) -> None:
        if self._folder.exists() and any(not path.name.startswith((".", "_")) for path in self._folder.iterdir()):
            raise TableMismatch(f"{self._folder} is not empty, and no table of the lake: give another path")

    def _write_schema(self, columns: Columns) -> None:
        _replace(self._folder / SCHEMA, format_schema(columns).to_json().encode())

    def _note(self, name: str) -> Note | None:
        try:
            return msgspec.json.decode((self._folder / _NOTES / f"{name}.json").read_bytes(), type=Note)
        except FileNotFoundError:
            return None

    def _write_note(self, name: str, note: Note) -> None:
        _replace(self._folder / _NOTES / f"{name}.json", msgspec.json.encode(note))

    def _finish(self, name: str) -> None:
        """Do what the last note says, as far as it is not done."""
        note = self._note(name)
        if note is None:
            return
        staging = self._folder / note.staging
        for path in note.files:
            if (staging / path).exists():
                (self._folder / path).parent.mkdir(parents=True, exist_ok=True)
                (staging / path).rename(self._folder / path)
        for path in note.gone:
            (self._folder / path).unlink(missing_ok=True)
        shutil.rmtree(staging, ignore_errors=True)


def read_schema(folder: Path) -> pa.Schema:
    """Read the schema of a folder that was written as a table of the lake."""
    try:
        return pa.schema(Schema.from_json((folder / SCHEMA).read_text(encoding="utf-8")).to_arrow())
    except FileNotFoundError:
        raise TableMismatch(
            f"{folder} is no folder of Parquet that was written as a table: it has no {SCHEMA}"
        ) from None


def _replace(path: Path, content: bytes) -> None:
    """Write a file so that it has the old content or the new one, whatever happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
    unfinished.write_bytes(content)
    unfinished.replace(path)
