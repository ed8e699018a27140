"""The start of a capture, and the checks that its publication and tables stay as they were.

Publication, slot and copy are made on first use: the slot before the copy, the manifest after it. With a manifest the
capture has begun. Without one, a slot or files were left by a start that did not finish, and are made anew.

Postgres filters a change by the publication at the time of the change: what the publication left out is never sent, so
a capture must not continue past such a gap. Publication and tables are checked when a connection begins, and regularly
after that.
"""

import logging
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from psycopg import sql

from everbrook.spark.postgres.capture_options import CaptureOptions, CaptureTuning, parse_folder
from everbrook.spark.postgres.capture_position import MANIFEST, MARKER, RESETS, VERSION, CapturePosition, parse_lsn
from everbrook.spark.postgres.change_messages import Types
from everbrook.spark.postgres.errors import START_OVER, CaptureError, CaptureRefused, ChangesLost
from everbrook.spark.postgres.publication import (
    Published,
    check_server,
    find_publication,
    find_tables,
    identify_later,
    lacking_actions,
    publish,
    shown,
)
from everbrook.spark.postgres.routing import NAMED, Streams
from everbrook.spark.postgres.slot import Replication, connect, drop_slot, slot_exists
from everbrook.spark.postgres.snapshot import (
    Manifest,
    Part,
    TableRecord,
    copy_tables,
    load_manifest,
    wanted,
    write_whole,
)
from everbrook.spark.postgres.system_catalog import Table, add_types

logger = logging.getLogger(__name__)
_LOCK_TIMEOUT = "1s"
Connection = psycopg.Connection[Any]
_AFTER_ALL = 1 << 64, 0
"""A position after those of all changes."""


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
        # The marker precedes the slot: after a kill in between, the next start knows the slot as its own.
        write_whole(options.location, MARKER, msgspec.json.encode({"slot": options.slot}))
        try:
            return _copied(options, published, tuning.pages_per_part)
        except BaseException:
            with suppress(psycopg.Error, CaptureError):  # Postgres would keep its log for a slot without a reader
                drop_slot(connection, options.slot, within_secs=1.0)
            raise


def _went_on(options: CaptureOptions, manifest: Manifest) -> Manifest:
    """Refuse other streams than before, and drop tables that the options no longer name: later changes are lost."""
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


def first_position(manifest: Manifest) -> CapturePosition:
    """Return the position before the first row of the copy, or before the first change."""
    return CapturePosition(VERSION, lsn=manifest.lsn, copied_bytes=0 if manifest.parts else None)


def _clear(connection: Connection, options: CaptureOptions) -> None:
    """Remove the slot and the files of an unfinished start. A slot of another client is refused."""
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
        # The snapshot ends with this connection, so the connection stays open until the copy is done.
        lsn, snapshot = replication.create_slot(options.slot)
        parts = []
        if options.initial_copy:
            tables = ", ".join(each.table.full_name for each in published)
            logger.info("copying %s as of %s into %s", tables, lsn, options.location)
            parts = _resets(options.location) + copy_tables(options, snapshot, published, pages_per_part)
        _name_streams(options, snapshot, [each.table for each in published])
    types, records = _RecordedTypes(), []
    for given, each in zip(options.tables, published, strict=True):
        key_columns = options.key_of(each.table.full_name, each.table.name)
        shape = each.table.shape(key_columns)
        records.append(TableRecord(each.table.oid, given, each.table.type, shape, each.member, each.table.partitioned))
    with connect(options.url) as connection:
        add_types(connection, types, {column.type_oid for each in records for column in each.shape.columns})
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
    # Last of all: with the manifest the capture has begun, and a restart continues it.
    write_whole(options.location, MANIFEST, msgspec.json.encode(manifest))
    return manifest


def _resets(folder: Path) -> list[Part]:
    """Return the first part of the copy, which resets the streams of an earlier capture, if there was one."""
    path = folder / RESETS
    return [Part("", RESETS, path.stat().st_size)] if path.exists() else []


def forget(location: Path | str) -> None:
    """Drop the progress of the capture with this `copyLocation`, but not the names of the streams that it wrote.

    The next copy begins with their reset. Without it, rows that were deleted in between would stay in the materialised
    states of the streams.
    """
    folder = parse_folder(str(location))
    manifest = load_manifest(folder)
    if manifest is not None and manifest.routing is not None:
        streams = Streams(manifest.routing, folder)
        written = {name for record in manifest.tables for name in streams.of_table(record.name, _AFTER_ALL)}
        lines = {name.encode() + b"\n" for name in written}
        if (folder / RESETS).exists():  # of an earlier capture: its resets may be unread
            lines |= set((folder / RESETS).read_bytes().splitlines(keepends=True))
        if lines:
            write_whole(folder, RESETS, b"".join(sorted(lines)))
    _remove_copy(folder)
    for name in (MANIFEST, MARKER):
        (folder / name).unlink(missing_ok=True)


class _RecordedTypes(Types):
    """Types that record what was added, for the manifest."""

    def __init__(self) -> None:
        super().__init__()
        self.bases: dict[int, int] = {}
        self.elements: dict[int, int] = {}

    def add(self, bases: Any, elements: Any) -> None:
        super().add(bases, elements)
        self.bases.update(bases)
        self.elements.update(elements)


def _name_streams(options: CaptureOptions, snapshot: str, tables: list[Table]) -> None:
    """Record the streams of the copied rows, if a column names them."""
    column = options.routing.column
    if column is None:
        return
    streams = Streams(options.routing, options.location)
    with connect(options.url, autocommit=False) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
        for table in tables:
            # `format` writes values as COPY and changes do; a cast to text does not, for some types.
            query = sql.SQL("SELECT DISTINCT CASE WHEN {0} IS NOT NULL THEN format('%s', {0}) END FROM {1}")
            for (value,) in connection.execute(query.format(sql.Identifier(column), table.identifier)):
                streams.note(streams.of_value(None if value is None else value.encode()), (0, 0))
    streams.write()


class Watch:
    """Checks the publication and the tables of a capture."""

    def __init__(self, options: CaptureOptions, manifest: Manifest, tuning: CaptureTuning) -> None:
        self._options = options
        self._tuning = tuning
        self._began_with = {record.oid: record.name for record in manifest.tables}
        self._records = wanted(options, manifest)
        self._looked_at = 0.0
        self._dropped_before: int | None = None

    @property
    def due(self) -> bool:
        """Whether it is time for the next check."""
        return time.monotonic() - self._looked_at > self._tuning.look_secs

    @property
    def unsure(self) -> bool:
        """Whether a change of a table is a reason for another check."""
        return time.monotonic() - self._looked_at > self._tuning.unsure_secs

    def look(self, connection: Connection, reached_lsn: int) -> None:
        """Refuse to continue if publication or tables have changed. Changes have been received up to an LSN."""
        connection.execute("SELECT set_config('lock_timeout', %s, false)", [_LOCK_TIMEOUT])
        check_server(connection)
        self._look_at_publication(connection)
        tables = self._tables(connection)
        for table in tables:
            if table.oid not in self._began_with:
                again = table.type in self._began_with.values()
                why = (
                    "was dropped and created again" if again else "is not one of the tables that the capture began with"
                )
                raise CaptureRefused(f"{table.full_name} {why}: its rows were not copied. {START_OVER}")
            identify_later(connection, self._options, table)
        self._look_for_dropped(connection, reached_lsn)
        self._looked_at = time.monotonic()

    def _tables(self, connection: Connection) -> list[Table]:
        """Look up the tables by their names. A dropped table may still have unread changes."""
        names = []
        for name in self._options.tables:
            row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [name]).fetchone()
            if row and row[0]:
                names.append(name)
        return find_tables(connection, msgspec.structs.replace(self._options, tables=tuple(names)))

    def _look_at_publication(self, connection: Connection) -> None:
        name = self._options.publication
        found = find_publication(connection, name)
        if not found:
            raise _lost(f"the publication {name!r} is gone")
        if lacking := lacking_actions(found):
            raise _lost(f"the publication {name!r} does not publish {', '.join(lacking)} any more")
        members = {oid: member for oid, _, _, member in shown(connection, name)}
        there = self._still_there(connection)
        for record in self._records:
            if record.oid in there and record.oid not in members:
                raise _lost(f"{record.name} is no longer in the publication {name!r}")
            if record.oid in there and record.member not in {None, members[record.oid]}:
                raise _lost(f"{record.name} was removed from the publication {name!r} and added again, or in part")

    def _still_there(self, connection: Connection) -> set[int]:
        oids = [record.oid for record in self._records]
        return {oid for (oid,) in connection.execute("SELECT oid::int8 FROM pg_class WHERE oid = ANY(%s)", [oids])}

    def _look_for_dropped(self, connection: Connection, reached_lsn: int) -> None:
        """Refuse to continue without a dropped table, once all of its changes have been received."""
        there = self._still_there(connection)
        dropped = [record.name for record in self._records if record.oid not in there]
        if not dropped:
            return
        if self._dropped_before is None:
            row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
            self._dropped_before = parse_lsn(str(row[0])) if row else 0
        if reached_lsn >= self._dropped_before:
            raise CaptureRefused(
                f"{', '.join(dropped)} was dropped: its rows stay in the stream, and no more changes come. Remove its "
                "name from the option tables to continue with the others"
            )


def _lost(what: str) -> ChangesLost:
    return ChangesLost(f"{what}: changes that were made meanwhile can't be captured. {START_OVER}")
