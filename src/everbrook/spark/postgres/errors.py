"""Errors of Postgres. Each message says what to do about it.

    CaptureError                    changes can't be captured
     +-- CaptureRefused             Postgres or its settings do not allow it: nothing changes by trying again
     |    +-- ChangesLost           the slot is gone or moved: only a new copy of the tables helps
     +-- PostgresAway               Postgres can't be reached, or the slot is in use: trying again may help

    PostgresFault                   rows can't be written
     +-- DatabaseUnreachable        the database does not respond, does not exist, or went away
     +-- AccessRefused              a password is wrong, or a right is missing
     +-- TableChanged               the table or a column is gone, or of another type
     +-- ResourcesExhausted         the disk is full, or memory or connections are used up
     +-- StatementFailed            anything else that is not the fault of a row

When rows are written, an error concerns one of three things. A row that the database refuses becomes a dead letter. A
transient error (a deadlock, a lost connection) is retried with the whole transaction. Everything else ends the batch
with a `PostgresFault`; nothing is lost, because nothing of the batch was committed.
"""

import re

import psycopg

_LINE = re.compile(r"^COPY .*?, line (\d+)", re.MULTILINE)
_COLUMN = re.compile(r"^COPY .*?, line \d+, column (.+?)(?::|$)", re.MULTILINE)

_OF_A_ROW = ("22", "23", "44", "54", "P0")
_OF_A_ROW_OR_A_TABLE = ("0A", "21", "2F", "38", "39", "3F", "42", "XX000")
"""States of errors that a trigger, a policy or a type raises for a row, and that a changed table raises too."""
_OF_A_MOMENT = ("08", "40", "53300", "55P03", "57P01", "57P02", "57P03", "57P05", "25P03")


class CaptureError(Exception):
    """Changes can't be captured."""


class CaptureRefused(CaptureError):
    """The database, its settings or the tables must be changed first."""

    restartable = False


class ChangesLost(CaptureRefused):
    """Changes can't be read any more."""


class PostgresAway(CaptureError):
    """Postgres can't be reached, or the slot is in use."""


START_OVER = (
    "Make a new copy: run `everbrook pipeline reset` for a job, or else call capture.drop(url, slot) and "
    "capture.forget(copyLocation), and start the query with a new checkpoint"
)


class PostgresFault(Exception):
    """Rows can't be written now."""


class DatabaseUnreachable(PostgresFault):
    """There is no connection to the database."""


class AccessRefused(PostgresFault):
    """The database refuses this user, or what it does."""


class TableChanged(PostgresFault):
    """The table has changed, or does not exist."""


class ResourcesExhausted(PostgresFault):
    """The database has no resources left."""


class StatementFailed(PostgresFault):
    """The database refuses the statement for another reason."""


_KINDS: tuple[tuple[tuple[str, ...], type[PostgresFault], str], ...] = (
    (("3D000",), DatabaseUnreachable, "create it, or correct the url"),
    (("28",), AccessRefused, "correct the user or the password in the url"),
    (("42501",), AccessRefused, "grant this user what is missing"),
    (("25006",), AccessRefused, "it takes no writes: it is a replica, or set to read only"),
    (("42P01", "3F000"), TableChanged, "create it again, or name another"),
    (("42703", "42804", "42P10", "42846", "42883"), TableChanged, "correct the table, or the mapping of its columns"),
    (("53100",), ResourcesExhausted, "make room"),
    (("53",), ResourcesExhausted, "give it more, or stop what uses them"),
    (_OF_A_MOMENT, DatabaseUnreachable, "start the query again when it is available"),
)


def is_of_a_row(error: psycopg.Error) -> bool:
    return (error.sqlstate or "").startswith(_OF_A_ROW)


def may_be_of_a_row(error: psycopg.Error) -> bool:
    """Return whether a row may be at fault: it is, if the same statement without rows succeeds."""
    return (error.sqlstate or "").startswith(_OF_A_ROW_OR_A_TABLE)


def is_of_a_moment(error: psycopg.Error) -> bool:
    """Return whether a retry may succeed. An error without an SQLSTATE is one of the connection."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and not is_refusal(error)
    return error.sqlstate.startswith(_OF_A_MOMENT)


def is_refusal(error: psycopg.Error) -> bool:
    """Return whether the server refused the connection. Such errors have no SQLSTATE."""
    # These are transient: starting up, shutting down, in recovery mode, not yet accepting connections.
    return "FATAL:" in str(error) and "the database system is " not in str(error)


def fault_of(error: psycopg.Error, doing: str) -> PostgresFault:
    """Make the error for the user from one that was raised during `doing`."""
    state = error.sqlstate or _unnumbered(error)
    kind, remedy = next(
        ((kind, remedy) for states, kind, remedy in _KINDS if state.startswith(states)),
        (StatementFailed, "see the log of the database"),
    )
    return kind(f"{doing} failed: {reason_of(error)}. Nothing of it was committed, and nothing is lost: {remedy}")


def _unnumbered(error: psycopg.Error) -> str:
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return ""
    text = str(error)
    if "does not exist" in text and "database" in text:
        return "3D000"
    if "too many" in text:
        return "53300"
    return "28000" if is_refusal(error) else "08000"


def reason_of(error: psycopg.Error) -> str:
    """Return the message of the database, in one line."""
    diag = error.diag
    if diag.message_primary is None:
        return " ".join(str(error).split()) or type(error).__name__
    column = _COLUMN.search(diag.context or "")
    where = f" (column {column[1]})" if column else ""
    detail = f": {diag.message_detail}" if diag.message_detail and not column else ""
    return f"{diag.message_primary}{where}{detail}"


def line_of(error: psycopg.Error) -> int | None:
    """Return the number of the refused line of a COPY, from 0, if the database names it in English."""
    found = _LINE.search(error.diag.context or "")
    return int(found[1]) - 1 if found else None
