"""What must stay as it is while a capture goes on: its publication, and the tables it began with.

It is looked at when a connection begins, and now and then after that. A publication tells a change or does not, as it
was when the change was made: what it left out can't be told later, so that a capture must not go on over it.
"""

import time
from typing import Any

import msgspec
import psycopg

from everbrook.spark.capture.beginning import wanted
from everbrook.spark.capture.catalogue import Table
from everbrook.spark.capture.errors import START_OVER, CaptureRefused, ChangesLost
from everbrook.spark.capture.identifying import identify_later
from everbrook.spark.capture.options import CaptureOptions
from everbrook.spark.capture.positions import parse_lsn
from everbrook.spark.capture.publishing import check_server, find_publication, find_tables, lacking_actions, shown
from everbrook.spark.capture.spool import Manifest
from everbrook.spark.capture.tuning import CaptureTuning

Connection = psycopg.Connection[Any]

_LOCK_TIMEOUT = "1s"


class Watch:
    """Looks after the tables of a capture."""

    def __init__(self, options: CaptureOptions, manifest: Manifest, tuning: CaptureTuning) -> None:
        self._options = options
        self._tuning = tuning
        self._began_with = {record.oid: record.name for record in manifest.tables}
        self._records = wanted(options, manifest)
        self._looked_at = 0.0
        self._dropped_before: int | None = None

    @property
    def due(self) -> bool:
        """Tell whether it is time to look again."""
        return time.monotonic() - self._looked_at > self._tuning.look_secs

    @property
    def unsure(self) -> bool:
        """Tell whether to look again when there is a reason to."""
        return time.monotonic() - self._looked_at > self._tuning.unsure_secs

    def look(self, connection: Connection, reached_lsn: int) -> None:
        """Refuse to go on if something is no longer as it was. Changes have been received up to an LSN."""
        connection.execute("SELECT set_config('lock_timeout', %s, false)", [_LOCK_TIMEOUT])
        check_server(connection)
        self._look_at_publication(connection)
        tables = self._tables(connection)
        for table in tables:
            if table.oid not in self._began_with:
                again = table.type in self._began_with.values()
                why = "was dropped and made anew" if again else "is not of those it began with"
                raise CaptureRefused(f"{table.full_name} {why}: its rows were not copied. {START_OVER}")
            identify_later(connection, self._options, table)
        self._look_for_dropped(connection, reached_lsn)
        self._looked_at = time.monotonic()

    def _tables(self, connection: Connection) -> list[Table]:
        """Look up the tables by their names. One that was dropped since may still have changes to tell."""
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
            raise _lost(f"the publication {name!r} does not tell of {', '.join(lacking)} any more")
        members = {oid: member for oid, _, _, member in shown(connection, name)}
        there = self._still_there(connection)
        for record in self._records:
            if record.oid in there and record.oid not in members:
                raise _lost(f"{record.name} is no longer in the publication {name!r}")
            if record.oid in there and record.member not in {None, members[record.oid]}:
                raise _lost(f"{record.name} was taken out of the publication {name!r} and put in anew, or in part")

    def _still_there(self, connection: Connection) -> set[int]:
        oids = [record.oid for record in self._records]
        return {oid for (oid,) in connection.execute("SELECT oid::int8 FROM pg_class WHERE oid = ANY(%s)", [oids])}

    def _look_for_dropped(self, connection: Connection, reached_lsn: int) -> None:
        """Refuse to go on without a table, when all that there was to tell of it has been received."""
        there = self._still_there(connection)
        dropped = [record.name for record in self._records if record.oid not in there]
        if not dropped:
            return
        if self._dropped_before is None:
            row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
            self._dropped_before = parse_lsn(str(row[0])) if row else 0
        if reached_lsn >= self._dropped_before:
            raise CaptureRefused(
                f"{', '.join(dropped)} was dropped: its rows stay in the stream, and nothing more comes. Without its "
                "name in the option tables the capture goes on with the others"
            )


def _lost(what: str) -> ChangesLost:
    return ChangesLost(f"{what}: changes that were made meanwhile can't be captured. {START_OVER}")
