"""Bisection: writes many rows at once, and if the database refuses them, fewer, until the refused rows are found.

Each attempt is a savepoint, so that a refusal undoes only itself. Rows stay in their order. An error that is not about
a row ends the transaction. If an error may be about a row or the table, the statement is tried
without rows: if that fails too, no row is at fault.
"""

from collections.abc import Callable

import psycopg

from everbrook.spark.postgres.database import Cursor
from everbrook.spark.postgres.errors import is_of_a_row, line_of, may_be_of_a_row, reason_of

Refused = dict[int, str]
"""The reasons of refused rows, by their places."""
Attempt = Callable[[int, int], None]
_CLOSER = 1000
"""After a refusal so many rows are tried at a time, because each further refusal sends all of them again."""


class RowRefused(Exception):
    """A row can't be written: the database refuses it, or this process does."""

    def __init__(self, place: int | None, reason: str) -> None:
        """Take the place of the row, if it is known."""
        super().__init__(reason)
        self.place = place
        self.reason = reason


class Bisection:
    """Writes rows by attempts at ranges of them."""

    def __init__(
        self,
        cursor: Cursor,
        attempt: Attempt,
        refusal: Callable[[psycopg.Error], bool],
        place_of: Callable[[int, int], int | None] = int.__add__,
    ) -> None:
        """Take `attempt`, which writes a range of rows, and `refusal`, which is called when the database refuses one.

        If `refusal` returns true, the same range is tried again, because the way of writing has changed. An attempt at
        no rows fails if the table is at fault. `place_of` finds the row of a line of a COPY, in an attempt from some
        row on.
        """
        self._cursor = cursor
        self._attempt = attempt
        self._refusal = refusal
        self._place_of = place_of
        self.refused: Refused = {}

    def write(self, count: int) -> Refused:
        """Write rows, and return the refused ones with their reasons."""
        waiting = [(0, count)] if count else []
        while waiting:
            start, end = waiting.pop()
            try:
                self._try(start, end)
            except _Again:
                waiting.append((start, end))
            except RowRefused as refused:
                waiting += self._divided(start, end, refused)
        return self.refused

    def _divided(self, start: int, end: int, refused: RowRefused) -> list[tuple[int, int]]:
        """Split rows of which one was refused, in reverse order: they are taken from the end of the list."""
        if end - start == 1:
            self.refused[start] = refused.reason
            return []
        return _parts(start, end, refused.place)[::-1]

    def _try(self, start: int, end: int) -> None:
        try:
            with self._cursor.connection.transaction():
                self._attempt(start, end)
        except psycopg.Error as error:
            if not is_of_a_row(error) and not (may_be_of_a_row(error) and self._takes_none(start)):
                raise
            if self._refusal(error):
                raise _Again from error
            line = line_of(error)
            raise RowRefused(None if line is None else self._place_of(start, line), reason_of(error)) from error

    def _takes_none(self, start: int) -> bool:
        try:
            with self._cursor.connection.transaction(force_rollback=True):
                self._attempt(start, start)
        except psycopg.Error:
            return False
        return True


class _Again(Exception):
    """The same rows must be tried again."""


def _parts(start: int, end: int, place: int | None) -> list[tuple[int, int]]:
    """Split rows around the refused one, or in the middle if it is unknown."""
    if end - start > _CLOSER:
        return [(first, min(first + _CLOSER, end)) for first in range(start, end, _CLOSER)]
    if place is None or not start <= place < end:
        middle = (start + end) // 2
        return [(start, middle), (middle, end)]
    parts = [(start, place), (place, place + 1), (place + 1, end)]
    return [(first, last) for first, last in parts if first < last]
