"""The load of the tables: transactions that insert, update, delete, change keys, move rows between streams, roll back.

Each writer has rows of its own. What a transaction does, it writes down in the same transaction: where Postgres dies
before it has answered a commit, that tells afterwards whether it was committed.
"""

import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import psycopg

from soak.sync.changes import Entry, Row, body
from soak.sync.load import Load
from soak.sync.scene import JOURNAL, ROOMS, TABLES

SEED_ROWS = 1_500
MOST_ROWS = 4_000
_MAX_PAUSE_SECS = 0.06
_SPREAD = 100
"""The last digits of the number of a change are the writer's."""
_BURST_SHARE, _ROLLBACK_SHARE, _SAVEPOINT_SHARE = 0.02, 0.15, 0.1
_AWAY = (psycopg.OperationalError, psycopg.InterfaceError)
Rows = dict[str, dict[str, Row]]
Connection = psycopg.Connection[tuple[Any, ...]]


class Writer(Load):
    """Changes rows until it is told to end."""

    def __init__(self, number: int, url: str, random: Random) -> None:
        super().__init__(f"writer-{number}", random, _MAX_PAUSE_SECS)
        self.tally: Counter[str] = Counter()
        self._number, self._url = number, url
        self._rows: Rows = {table: {} for table in TABLES}
        self._changes = 0
        self._connection: Connection | None = None

    def step(self) -> None:
        """Run a transaction."""
        self.transact(self._some)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def seed(self) -> None:
        """Write the rows that the initial copy is to find."""

        def rows(work: "Work") -> None:
            for table in TABLES:
                for _ in range(SEED_ROWS):
                    work.insert(table, place=0)

        self.transact(rows, may_fail=False)

    def mark(self) -> None:
        """Write a row to each stream behind which nothing follows."""

        def rows(work: "Work") -> None:
            for table in TABLES:
                for room in ROOMS:
                    work.insert(table, key=f"end-{room}", room=room)

        self.transact(rows, may_fail=False)

    def transact(self, do: "Callable[[Work], None]", *, may_fail: bool = True) -> None:
        """Run a transaction until it is known what became of it."""
        work = Work(
            self._number, self._changes, {table: dict(rows) for table, rows in self._rows.items()}, self._random
        )
        do(work)
        self._changes = work.changes
        rolled_back = may_fail and self._random.random() < _ROLLBACK_SHARE
        begin = time.monotonic()
        while not self._try(work, rolled_back=rolled_back):
            self.require_patience(begin, "Postgres")
            time.sleep(0.05)
        self.tally["rolled back" if rolled_back else "committed"] += 1
        if not rolled_back:
            self._rows = work.rows
            self.tally["changes"] += len(work.entries)

    def _try(self, work: "Work", *, rolled_back: bool) -> bool:
        """Tell whether it is done. Unanswered, it is looked for first: it may have been committed."""
        try:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(self._url, connect_timeout=5)
                if self._written(work):
                    self.tally["answered by the table alone"] += 1
                    return True
            work.write(self._connection)
            if rolled_back:
                self._connection.rollback()
            else:
                self._connection.commit()
        except _AWAY:
            self.tally["broken off"] += 1
            self.close()
            self._connection = None
            return False
        return True

    def _written(self, work: "Work") -> bool:
        assert self._connection is not None  # noqa: S101 - for the type checker
        query = f"SELECT FROM {JOURNAL} WHERE change = %s"
        found = self._connection.execute(query, [work.entries[0].change]).fetchone() is not None
        self._connection.rollback()
        return found

    def _some(self, work: "Work") -> None:
        random = self._random
        count = random.randrange(200, 500) if random.random() < _BURST_SHARE else random.randrange(1, 9)
        for _ in range(count):
            work.change(random.choice(TABLES))
        if random.random() < _SAVEPOINT_SHARE:
            work.undo(random.choice(TABLES))


class Work:
    """A transaction: what it does, and what it leaves if it is committed."""

    def __init__(self, writer: int, changes: int, rows: Rows, random: Random) -> None:
        self.changes, self.rows = changes, rows
        self.entries: list[Entry] = []
        self._writer, self._random = writer, random
        self._undone: list[Entry] = []

    def change(self, table: str) -> None:
        """Do something with a row."""
        rows, random = self.rows[table], self._random
        chance = random.random()
        if not rows or (chance < 0.35 and len(rows) < MOST_ROWS):  # noqa: PLR2004 - shares, as those below
            self.insert(table)
            return
        old = rows[random.choice(list(rows))]
        if chance < 0.5:  # noqa: PLR2004
            self._note(table, None, old)
            return
        number = self._next()
        key = f"{self._writer}:{number}" if chance < 0.6 else old.key  # noqa: PLR2004
        room = random.choice(ROOMS) if chance < 0.7 else old.room  # noqa: PLR2004
        tag = number if random.random() < 0.5 else old.tag  # noqa: PLR2004
        self._note(table, Row(key, room, number, tag), old)

    def insert(self, table: str, *, key: str = "", room: str = "", place: int | None = None) -> None:
        """Insert a row."""
        number = self._next()
        row = Row(key or f"{self._writer}:{number}", room or self._random.choice(ROOMS), number, number)
        self._note(table, row, None, place)

    def undo(self, table: str) -> None:
        """Insert a row, and think better of it."""
        number = self._next()
        self._undone.append(
            Entry(number, self._writer, number, table, Row(f"{self._writer}:{number}", ROOMS[0], number, number), None)
        )

    def _next(self) -> int:
        self.changes += 1
        return self.changes * _SPREAD + self._writer

    def _note(self, table: str, new: Row | None, old: Row | None, place: int | None = None) -> None:
        number = new.change if new is not None else self._next()
        self.entries.append(Entry(number, self._writer, number if place is None else place, table, new, old))
        if old is not None:
            del self.rows[table][old.key]
        if new is not None:
            self.rows[table][new.key] = new

    def write(self, connection: Connection) -> None:
        """Write everything, but for the end."""
        with connection.cursor() as cursor:
            for entry in self.entries:
                cursor.execute(*statement(entry))
            with cursor.copy(f"COPY {JOURNAL} FROM STDIN") as copy:
                for entry in self.entries:
                    copy.write_row(line(entry))
            for entry in self._undone:
                cursor.execute("SAVEPOINT undone")
                cursor.execute(*statement(entry))
                cursor.execute("ROLLBACK TO SAVEPOINT undone")


def statement(entry: Entry) -> tuple[str, list[object]]:
    """Give the statement of a change. A body that stays is not named, so that Postgres need not log it."""
    new, old, table = entry.new, entry.old, entry.source
    if new is None:
        assert old is not None  # noqa: S101 - there is no change of nothing
        return f"DELETE FROM {table} WHERE id = %s", [old.key]  # noqa: S608 - a name of ours, as those below
    values: list[object] = [new.key, new.room, new.change]
    if old is None:
        return f"INSERT INTO {table} VALUES (%s, %s, %s, %s, %s)", [*values, new.tag, body(new.tag)]  # noqa: S608
    if new.tag == old.tag:
        return f"UPDATE {table} SET id = %s, room = %s, change = %s WHERE id = %s", [*values, old.key]  # noqa: S608
    return (
        f"UPDATE {table} SET id = %s, room = %s, change = %s, tag = %s, body = %s WHERE id = %s",  # noqa: S608
        [*values, new.tag, body(new.tag), old.key],
    )


def line(entry: Entry) -> tuple[object, ...]:
    """Give the row of the journal that tells a change."""
    new, old = entry.new, entry.old
    made = (None, None, None) if new is None else (new.key, new.room, new.tag)
    gone = (None, None, None) if old is None else (old.key, old.room, old.change)
    return (entry.change, entry.writer, entry.place, entry.source, *made, *gone)


def entry_of(columns: tuple[Any, ...]) -> Entry:
    """Read such a row."""
    change, writer, place, source, key, room, tag, old_key, old_room, old_change = columns
    new = None if key is None else Row(key, room, change, tag)
    old = None if old_key is None else Row(old_key, old_room, old_change, 0)
    return Entry(change, writer, place, source, new, old)
