"""Replication slots: Postgres keeps changes there until they are confirmed, and sends them over one connection.

The connection is libpq's, through the low level of psycopg, which has no replication protocol but carries its bytes.
Feedback has two positions: what was received, so that Postgres can shut down without waiting for a confirmation; and
what is confirmed and may be removed, only when that has advanced.
"""

import select
import time
from struct import Struct as Layout
from typing import Any

import psycopg
from msgspec import Struct
from psycopg import pq, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from everbrook.spark.postgres.capture_position import format_lsn, parse_lsn
from everbrook.spark.postgres.change_messages import SESSION
from everbrook.spark.postgres.errors import START_OVER, CaptureError, CaptureRefused, ChangesLost, PostgresAway

_DATA = Layout(">cQQq")
_KEEPALIVE = Layout(">cQqB")
_FEEDBACK = Layout(">cQQQqB")
_EPOCH_OF_POSTGRES_SECS = 946_684_800
_PATIENT = {"statement_timeout": "0", "idle_in_transaction_session_timeout": "0", "idle_session_timeout": "0"}
"""No timeouts: a copy may take long, and the connection that exported its snapshot is idle meanwhile."""
_IN_USE, _NO_OBJECT, _NOT_READY, _NOT_ALLOWED = "55006", "42704", "55000", "42501"
Connection = psycopg.Connection[Any]
_FREE_WITHIN_SECS = 30.0
_SLOT = """
    SELECT plugin, database, active_pid, coalesce(wal_status, ''), confirmed_flush_lsn::text,
        pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::int8,
        pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::int8, safe_wal_size::int8,
        current_database(), pg_current_wal_lsn()::text
    FROM pg_replication_slots WHERE slot_name = %s
"""


class Data(Struct, frozen=True, gc=False):
    """A message of the output plugin."""

    payload: bytes


class Keepalive(Struct, frozen=True, gc=False):
    """Everything that was committed before an LSN has been sent, if no transaction is open."""

    wal_end: int
    reply_wanted: bool


def parse_frame(frame: bytes) -> Data | Keepalive:
    """Parse a frame of Postgres in COPY BOTH mode."""
    if frame[:1] == b"w":
        return Data(frame[_DATA.size :])
    if frame[:1] == b"k":
        _, wal_end, _, wanted = _KEEPALIVE.unpack(frame)
        return Keepalive(wal_end, bool(wanted))
    raise CaptureError(f"replication has frames of the kinds w and k, got {frame[:1]!r}")


def format_feedback(received: int, confirmed: int, now_secs: float) -> bytes:
    """Format feedback: the received and the confirmed position. 0 confirms nothing."""
    now_us = int((now_secs - _EPOCH_OF_POSTGRES_SECS) * 1_000_000)
    return _FEEDBACK.pack(b"r", received, confirmed, confirmed, now_us, 0)


def conninfo(url: str, **settings: str) -> str:
    """Return the connection string of a capture: the URL of the database, with timeouts and session settings."""
    given = str(conninfo_to_dict(url).get("options") or "")
    needed = (f"-c {name}={value.replace(' ', '')}" for name, value in (SESSION | _PATIENT).items())
    options = " ".join([given, *needed]).strip()
    # Keepalives detect a connection whose other end has vanished.
    alive = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3", "connect_timeout": "10"}
    return make_conninfo(url, **{"application_name": "everbrook", "options": options, **alive, **settings})


def connect(url: str, *, autocommit: bool = True) -> "psycopg.Connection[Any]":
    try:
        return psycopg.connect(conninfo(url), autocommit=autocommit)
    except psycopg.OperationalError as error:
        raise PostgresAway(f"Postgres can't be reached: {str(error).strip()}") from error


class Replication:
    """A connection for replication. It is used by one thread."""

    def __init__(self, url: str) -> None:
        self._pg = pq.PGconn.connect(conninfo(url, replication="database").encode())
        if self._pg.status != pq.ConnStatus.OK:
            message = self._pg.get_error_message()
            self._pg.finish()
            # 15: "must be superuser or replication role". 16: "permission denied …, the REPLICATION attribute".
            refused = "replication" in message.lower() and ("permission" in message or "role" in message)
            raise (not_allowed(message) if refused else PostgresAway(f"Postgres can't be reached: {message}"))

    def close(self) -> None:
        """End the connection. Postgres frees the slot soon after."""
        self._pg.finish()

    def create_slot(self, slot: str) -> tuple[str, str]:
        """Create a slot.

        Return its first LSN, and a snapshot of that moment, which lasts as long as this connection.
        """
        result = self._run(f'CREATE_REPLICATION_SLOT "{slot}" LOGICAL pgoutput EXPORT_SNAPSHOT')
        point, snapshot = result.get_value(0, 1), result.get_value(0, 2)
        assert point is not None  # noqa: S101 - of the protocol
        assert snapshot is not None  # noqa: S101
        return point.decode(), snapshot.decode()

    def start(self, slot: str, publication: str) -> None:
        """Begin to receive what the slot has not confirmed."""
        quoted = publication.replace('"', '""').replace("'", "''")
        options = f"proto_version '1', publication_names '\"{quoted}\"'"
        self._run(f'START_REPLICATION SLOT "{slot}" LOGICAL 0/0 ({options})')
        self._pg.nonblocking = 1

    def _run(self, command: str) -> pq.abc.PGresult:
        result = self._pg.exec_(command.encode())
        if result.status not in {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COPY_BOTH}:
            raise _error_of(result)
        return result

    def receive(self) -> bytes | None:
        """Return the next received frame, or None."""
        size, data = self._pg.get_copy_data(1)
        if size > 0:
            return bytes(data)
        if size == 0:
            self._pg.consume_input()
            size, data = self._pg.get_copy_data(1)
            if size > 0:
                return bytes(data)
        if size < 0:
            raise _error_of(self._pg.get_result())
        return None

    @property
    def socket(self) -> int:
        """The descriptor of the connection, for `select`."""
        return self._pg.socket

    def send_feedback(self, received: int, confirmed: int = 0) -> None:
        """Report to Postgres what was received, and confirm what it may remove."""
        if confirmed:
            self._pg.put_copy_data(format_feedback(received, confirmed, time.time()))
        self._pg.put_copy_data(format_feedback(received, 0, time.time()))
        while self._pg.flush():
            select.select([], [self._pg.socket], [], 1.0)


class SlotInUse(PostgresAway):
    """Another process reads from the slot."""


def not_allowed(message: str) -> CaptureRefused:
    """Make the error for a role that may not replicate."""
    return CaptureRefused(
        f"this role may not read changes: {message.strip()}. Grant it: ALTER ROLE … REPLICATION (and LOGIN)"
    )


def _error_of(result: "pq.abc.PGresult | None") -> CaptureError:
    """Make the error for a result of Postgres."""
    if result is None:
        return PostgresAway("Postgres has ended the connection")
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    message = result.get_error_message().strip()
    if state == _IN_USE:
        return SlotInUse(message)
    if state == _NOT_ALLOWED:
        return not_allowed(message)
    if state in {_NO_OBJECT, _NOT_READY} and "slot" in message:
        return ChangesLost(f"{message}. {START_OVER}")
    if state.startswith(("08", "57")) or not state:
        return PostgresAway(f"Postgres has ended the connection: {message}")
    return CaptureRefused(f"Postgres refuses to send changes: {message} (SQLSTATE {state})")


class Status(Struct, frozen=True):
    """A slot as it is now."""

    slot: str
    active: bool
    """Whether a client reads from it."""
    wal_status: str
    """`reserved`, `extended`, `unreserved` or `lost`, as in Postgres. `missing`: the slot does not exist."""
    confirmed_lsn: str = ""
    lag_bytes: int = 0
    """The size of the log after the confirmed position."""
    retained_bytes: int = 0
    """The size of the log that Postgres keeps on disk because of this slot."""
    safe_bytes: int | None = None
    """How much log can be written until the slot is lost. None if it is unlimited."""


def status(url: str, slot: str) -> Status:
    """Get the status of a slot: its lag, and the log that Postgres keeps for it."""
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
            f"slot was created again, or moved by another client. {START_OVER}"
        )
    if parse_lsn(end) < done_lsn:
        raise ChangesLost(
            f"Postgres has written up to {end}, and this query has come to {format_lsn(done_lsn)}: this is another "
            f"database, or an older state of it. {START_OVER}"
        )


def slot_exists(connection: Connection, slot: str) -> bool:
    return connection.execute("SELECT FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone() is not None


def drop_slot(connection: Connection, slot: str, within_secs: float = _FREE_WITHIN_SECS) -> None:
    """Drop a slot, if it exists. If a client reads from it, wait until the client has ended."""
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
    """Drop the slot and the publication of a capture, if they exist.

    A publication that the user created may be kept.
    """
    try:
        with connect(url) as connection:
            drop_slot(connection, slot)
            if not keep_publication:
                name = sql.Identifier(publication or slot)
                connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(name))
    except psycopg.OperationalError as error:
        raise PostgresAway(f"Postgres can't be reached: {str(error).strip()}") from error
