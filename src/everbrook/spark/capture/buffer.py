"""What was received and is not committed yet, between the thread that receives and the one that Spark asks.

Changes stay here until the batch that has them is committed, so that a batch can be given again. It is bounded: when
it is full nothing more is received, and Postgres waits. Only a batch that was decided on under larger bounds exceeds
them.
"""

import threading
from bisect import bisect_right
from collections.abc import Iterator

from everbrook.spark.capture.events import Event
from everbrook.spark.capture.positions import VERSION, Position, Shape
from everbrook.spark.capture.routing import Order
from everbrook.spark.capture.rows import Row


class Buffer:
    """Changes in their order, with how far everything was received."""

    def __init__(self, position: Position, max_rows: int, max_bytes: int) -> None:
        self.begun = position.order
        self._events: list[Event] = []
        self._reached = self._required = position.order
        self._shapes = dict(position.shapes)
        self._max_rows, self._max_bytes = max_rows, max_bytes
        self._rows = self._bytes = 0
        self._changed = threading.Condition()
        self._error: BaseException | None = None

    def put(self, events: list[Event]) -> None:
        """Add what was received."""
        with self._changed:
            for event in events:
                if event.rows:
                    self._events.append(event)
                    self._rows += len(event.rows)
                    self._bytes += event.size_bytes
            self._reached, self._shapes = events[-1].order, events[-1].shapes
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Tell whoever waits that nothing more comes."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    @property
    def reached(self) -> Order:
        """How far everything was received."""
        return self._reached

    @property
    def row_count(self) -> int:
        """How many rows wait to be committed."""
        return self._rows

    @property
    def full(self) -> bool:
        """Whether nothing more should be received for now."""
        large = self._rows >= self._max_rows or self._bytes >= self._max_bytes
        return large and self._reached >= self._required

    def require(self, until: Order) -> None:
        """Take everything up to a position, however much it is: a batch that was decided on has to be given."""
        with self._changed:
            self._required = max(self._required, until)

    def wait(self, start: Order, until: Order | None, timeout_secs: float) -> Order:
        """Wait for changes after a position, or for everything up to another one, and say how far it has come.

        Changes that have come are given before the error that there are no more.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._error or self._ready(start, until), timeout_secs)
            if self._error is not None and not self._ready(start, until):
                raise self._error
            return self._reached

    def _ready(self, start: Order, until: Order | None) -> bool:
        if until is not None:
            return self._reached >= until
        return bool(self._events) and self._events[-1].order > start

    def end(self, start: Order, until: Order | None, max_rows: int, max_bytes: int) -> tuple[Position, int]:
        """Decide how far a batch goes: to the last change that fits, or to where everything was received.

        Also says how many rows it has.
        """
        with self._changed:
            first = self._after(start)
            last = len(self._events) if until is None else self._after(until)
            rows = size_bytes = 0
            for place in range(first, last):
                event = self._events[place]
                if rows and (rows + len(event.rows) > max_rows or size_bytes + event.size_bytes > max_bytes):
                    return self._at_event(place - 1), rows
                rows, size_bytes = rows + len(event.rows), size_bytes + event.size_bytes
            if last < len(self._events):
                return (self._at_event(last - 1), rows) if rows else (self._at(start, {}), 0)
            return self._at(self._reached, self._shapes), rows

    def _after(self, order: Order) -> int:
        """Find the first change after a position."""
        return bisect_right(self._events, order, key=lambda event: event.order)

    def _at_event(self, place: int) -> Position:
        return self._at(self._events[place].order, self._events[place].shapes)

    def _at(self, order: Order, shapes: dict[str, Shape]) -> Position:
        return Position(VERSION, lsn=order[0], row=order[1], shapes=shapes)

    def rows(self, start: Order, end: Order) -> Iterator[Row]:
        """Give the messages of a batch."""
        with self._changed:
            events = self._events[self._after(start) : self._after(end)]
        return (row for event in events for row in event.rows)

    def forget(self, end: Order) -> None:
        """Drop the changes of batches that are committed."""
        with self._changed:
            gone = self._events[: self._after(end)]
            del self._events[: len(gone)]
            self._rows -= sum(len(event.rows) for event in gone)
            self._bytes -= sum(event.size_bytes for event in gone)
