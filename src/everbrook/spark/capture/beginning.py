"""How a capture begins: publication, slot and copy on first use.

The slot is made before the copy, and the manifest after it: with a manifest a capture has begun; without one whatever
is there was left by a start that did not come to its end, and is made anew.
"""

import logging
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from psycopg import sql

from everbrook.spark.capture.catalogue import Table, tell_types
from everbrook.spark.capture.copying import copy_tables
from everbrook.spark.capture.errors import START_OVER, CaptureError, CaptureRefused
from everbrook.spark.capture.options import CaptureOptions, parse_folder
from everbrook.spark.capture.positions import VERSION, Position, parse_lsn
from everbrook.spark.capture.publishing import Published, check_server, find_tables, publish
from everbrook.spark.capture.rendering import Types
from everbrook.spark.capture.replication import Replication, connect
from everbrook.spark.capture.routing import NAMED, Streams
from everbrook.spark.capture.slots import drop_slot, slot_exists
from everbrook.spark.capture.spool import (
    MANIFEST,
    MARKER,
    RESETS,
    Manifest,
    Part,
    TableRecord,
    load_manifest,
    write_whole,
)
from everbrook.spark.capture.tuning import CaptureTuning

logger = logging.getLogger(__name__)
Connection = psycopg.Connection[Any]
_AFTER_ALL = 1 << 64, 0
"""A position behind those of all changes."""


def begin(options: CaptureOptions, tuning: CaptureTuning) -> Manifest:
    """Begin a capture, unless it has begun already."""
    manifest = load_manifest(options.location)
    if manifest is not None:
        return _went_on(options, manifest)
    options.location.mkdir(parents=True, exist_ok=True)
    with connect(options.url) as connection:
        check_server(connection)
        connection.execute("SELECT set_config('lock_timeout', %s, false)", [tuning.lock_timeout])
        published = publish(connection, options, find_tables(connection, options))
        _clear(connection, options)
        write_whole(options.location, MARKER, msgspec.json.encode({"slot": options.slot}))
        try:
            return _copied(options, published, tuning.pages_per_part)
        except BaseException:
            with suppress(
                psycopg.Error, CaptureError
            ):  # Postgres would keep what is written for a slot that nobody reads
                drop_slot(connection, options.slot, within_secs=1.0)
            raise


def _went_on(options: CaptureOptions, manifest: Manifest) -> Manifest:
    """Refuse other streams than before, and forget tables that are left out: what they miss now can't be told later."""
    if manifest.routing not in {None, options.routing}:
        raise CaptureRefused(
            "the options stream, streamPrefix and streamColumn are not those that the capture began with: rows that "
            f"are in other streams by now would never be removed from there. {START_OVER}"
        )
    kept = tuple(wanted(options, manifest))
    if len(kept) == len(manifest.tables):
        return manifest
    with connect(options.url) as connection:
        query = "SELECT to_regclass(name)::oid::int8 FROM unnest(%s::text[]) name"
        named = {oid for (oid,) in connection.execute(query, [list(options.tables)])}
    for record in manifest.tables:
        if record not in kept and record.oid in named:
            raise CaptureRefused(f"the option tables has another name than {record.given!r} for {record.name} now")
    manifest = msgspec.structs.replace(manifest, tables=kept)
    write_whole(options.location, MANIFEST, msgspec.json.encode(manifest))
    return manifest


def first_position(manifest: Manifest) -> Position:
    """Give the position before everything."""
    return Position(VERSION, lsn=manifest.lsn, copied_bytes=0 if manifest.parts else None)


def _clear(connection: Connection, options: CaptureOptions) -> None:
    """Remove what an unfinished start has left. A slot that is somebody else's is left alone."""
    if slot_exists(connection, options.slot):
        marker = options.location / MARKER
        if not marker.exists() or msgspec.json.decode(marker.read_bytes()).get("slot") != options.slot:
            raise CaptureRefused(
                f"there is a slot {options.slot!r} already, and nothing in {options.location} says that it is this "
                "query's. Give the option slot another name, or drop it: "
                f"SELECT pg_drop_replication_slot('{options.slot}')"
            )
        drop_slot(connection, options.slot)
    _remove_copy(options.location)


def _remove_copy(folder: Path) -> None:
    for path in (*folder.glob("part-*.copy"), folder / NAMED):
        path.unlink(missing_ok=True)


def _copied(options: CaptureOptions, published: list[Published], pages_per_part: int) -> Manifest:
    with closing(Replication(options.url)) as replication:
        lsn, snapshot = replication.create_slot(options.slot)
        parts = []
        if options.initial_copy:
            tables = ", ".join(each.table.full_name for each in published)
            logger.info("copying %s as of %s into %s", tables, lsn, options.location)
            parts = _resets(options.location) + copy_tables(options, snapshot, published, pages_per_part)
        _name_streams(options, snapshot, [each.table for each in published])
    types, records = _Told(), []
    for given, each in zip(options.tables, published, strict=True):
        key_columns = options.key_of(each.table.full_name, each.table.name)
        shape = each.table.shape(key_columns)
        records.append(TableRecord(each.table.oid, given, each.table.type, shape, each.member, each.table.partitioned))
    with connect(options.url) as connection:
        tell_types(connection, types, {column.type_oid for each in records for column in each.shape.columns})
    manifest = Manifest(
        options.slot,
        options.publication,
        parse_lsn(lsn),
        tuple(records),
        tuple(parts),
        types.bases,
        types.elements,
        options.routing,
    )
    write_whole(options.location, MANIFEST, msgspec.json.encode(manifest))
    return manifest


def _resets(folder: Path) -> list[Part]:
    """Give the first part of the copy, which resets the streams of the capture before, if there was one."""
    path = folder / RESETS
    return [Part("", RESETS, path.stat().st_size)] if path.exists() else []


def forget(location: Path | str) -> None:
    """Forget how far the capture with this `copyLocation` has come, but not which streams it has written.

    The next copy begins with their reset. Without it, rows that were deleted in between would stay in the materialised
    states of the streams.
    """
    folder = parse_folder(str(location))
    manifest = load_manifest(folder)
    if manifest is not None and manifest.routing is not None:
        streams = Streams(manifest.routing, folder)
        written = {name for record in manifest.tables for name in streams.of_table(record.name, _AFTER_ALL)}
        lines = {name.encode() + b"\n" for name in written}
        if (folder / RESETS).exists():  # of the capture before: perhaps they were not all read
            lines |= set((folder / RESETS).read_bytes().splitlines(keepends=True))
        if lines:
            write_whole(folder, RESETS, b"".join(sorted(lines)))
    _remove_copy(folder)
    for name in (MANIFEST, MARKER):
        (folder / name).unlink(missing_ok=True)


class _Told(Types):
    """Keeps what it was told, to write it down."""

    def __init__(self) -> None:
        super().__init__()
        self.bases: dict[int, int] = {}
        self.elements: dict[int, int] = {}

    def tell(self, bases: Any, elements: Any) -> None:
        super().tell(bases, elements)
        self.bases.update(bases)
        self.elements.update(elements)


def _name_streams(options: CaptureOptions, snapshot: str, tables: list[Table]) -> None:
    """Write down the streams that the copied rows go to, if a column names them."""
    column = options.routing.column
    if column is None:
        return
    streams = Streams(options.routing, options.location)
    with connect(options.url, autocommit=False) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
        for table in tables:
            # What `format` writes is what COPY and changes have; a cast to text is not, for some types.
            query = sql.SQL("SELECT DISTINCT CASE WHEN {0} IS NOT NULL THEN format('%s', {0}) END FROM {1}")
            for (value,) in connection.execute(query.format(sql.Identifier(column), table.identifier)):
                streams.note(streams.of_value(None if value is None else value.encode()), (0, 0))
    streams.write()


def wanted(options: CaptureOptions, manifest: Manifest) -> list[TableRecord]:
    """Give the tables that are captured: those it began with, without those that are no longer named."""
    plain = {name.replace('"', "").removeprefix("public.") for name in options.tables}
    return [record for record in manifest.tables if record.given in options.tables or record.name in plain]
