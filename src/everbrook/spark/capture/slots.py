"""Slots: where Postgres keeps changes until they are confirmed, and how much that is by now."""

import time
from typing import Any

import psycopg
from msgspec import Struct
from psycopg import sql

from everbrook.spark.capture.errors import START_OVER, CaptureRefused, ChangesLost, PostgresAway
from everbrook.spark.capture.positions import format_lsn, parse_lsn
from everbrook.spark.capture.replication import SlotInUse, connect

Connection = psycopg.Connection[Any]
_FREE_WITHIN_SECS = 30.0
_SLOT = """
    SELECT plugin, database, active_pid, coalesce(wal_status, ''), confirmed_flush_lsn::text,
        pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::int8,
        pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::int8, safe_wal_size::int8,
        current_database(), pg_current_wal_lsn()::text
    FROM pg_replication_slots WHERE slot_name = %s
"""


class Status(Struct, frozen=True):
    """A slot as it is now."""

    slot: str
    active: bool
    """Whether somebody reads from it."""
    wal_status: str
    """`reserved`, `extended`, `unreserved` or `lost`, as Postgres has it. `missing`: there is no such slot."""
    confirmed_lsn: str = ""
    lag_bytes: int = 0
    """How much has been written since what is confirmed."""
    retained_bytes: int = 0
    """How much Postgres keeps on disk because of this slot."""
    safe_bytes: int | None = None
    """How much can be written until the slot is lost. None if nothing limits it."""


def status(url: str, slot: str) -> Status:
    """Look at a slot: how far behind it is, and what it costs."""
    with connect(url) as connection:
        row = connection.execute(_SLOT, [slot]).fetchone()
    if row is None:
        return Status(slot, active=False, wal_status="missing")
    return Status(
        slot,
        active=row[2] is not None,
        wal_status=row[3],
        confirmed_lsn=row[4] or "",
        lag_bytes=max(row[5] or 0, 0),
        retained_bytes=max(row[6] or 0, 0),
        safe_bytes=row[7],
    )


def check_slot(connection: Connection, slot: str, done_lsn: int) -> None:
    """Refuse a slot that does not have all changes since a position."""
    row = connection.execute(_SLOT, [slot]).fetchone()
    if row is None:
        raise ChangesLost(
            f"the slot {slot!r} is gone, and with it the changes since {format_lsn(done_lsn)}. {START_OVER}"
        )
    plugin, database, _, wal_status, confirmed, *_, here, end = row
    if plugin != "pgoutput" or database != here:
        raise CaptureRefused(f"the slot {slot!r} is of {plugin} in {database}, where pgoutput in {here} was expected")
    if wal_status == "lost":
        raise ChangesLost(
            f"the slot {slot!r} has lost changes since {format_lsn(done_lsn)}: more was written than Postgres keeps "
            f"for a slot (max_slot_wal_keep_size). {START_OVER}"
        )
    if parse_lsn(confirmed) > done_lsn:
        raise ChangesLost(
            f"the slot {slot!r} begins at {confirmed}, and this query has only come to {format_lsn(done_lsn)}: the "
            f"slot was made anew, or moved by somebody else. {START_OVER}"
        )
    if parse_lsn(end) < done_lsn:
        raise ChangesLost(
            f"Postgres has written up to {end}, and this query has come to {format_lsn(done_lsn)}: this is another "
            f"database, or an older state of it. {START_OVER}"
        )


def slot_exists(connection: Connection, slot: str) -> bool:
    """Tell whether there is a slot of that name."""
    return connection.execute("SELECT FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone() is not None


def drop_slot(connection: Connection, slot: str, within_secs: float = _FREE_WITHIN_SECS) -> None:
    """Drop a slot, if it is there. If somebody reads from it, wait until that has ended."""
    deadline = time.monotonic() + within_secs
    while slot_exists(connection, slot):
        try:
            connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
        except psycopg.errors.UndefinedObject:
            return
        except psycopg.errors.ObjectInUse as error:
            if time.monotonic() > deadline:
                raise SlotInUse(f"the slot {slot!r} is in use: stop what reads from it ({error})") from error
            time.sleep(0.1)
        except psycopg.errors.InsufficientPrivilege as error:
            raise CaptureRefused(f"the slot {slot!r} can't be dropped: {error}") from error


def drop(url: str, slot: str, publication: str | None = None, *, keep_publication: bool = False) -> None:
    """Forget a capture: drop its slot and its publication, where they are there. One of somebody else's may be kept."""
    try:
        with connect(url) as connection:
            drop_slot(connection, slot)
            if not keep_publication:
                name = sql.Identifier(publication or slot)
                connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(name))
    except psycopg.OperationalError as error:
        raise PostgresAway(f"Postgres can't be reached: {str(error).strip()}") from error
