"""Receives changes in a thread, and keeps them until the batch that has them is committed.

The slot is confirmed only up to what Spark has committed: Postgres sends everything else again after a crash. When the
connection breaks, a new one begins at the confirmed position of the slot, and the receiver skips what it has already:
nothing is lost or duplicated. The receiver sends feedback even while the buffer is full, because Postgres ends
connections that are silent.

The buffer is bounded: when it is full, nothing more is received, and Postgres waits. Only a batch that was planned
under larger bounds may exceed them.
"""

import logging
import os
import select
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress

import psycopg

from everbrook.spark.postgres.capture_options import CaptureOptions, CaptureTuning
from everbrook.spark.postgres.capture_position import VERSION, CapturePosition, Shape
from everbrook.spark.postgres.change_messages import Captured, Event, Row
from everbrook.spark.postgres.errors import PostgresAway
from everbrook.spark.postgres.pgoutput import Relation, parse_message
from everbrook.spark.postgres.routing import Order, Streams
from everbrook.spark.postgres.slot import Data, Replication, check_slot, connect, parse_frame
from everbrook.spark.postgres.snapshot import Manifest, wanted
from everbrook.spark.postgres.start import Watch
from everbrook.spark.postgres.system_catalog import CatalogInspector
from everbrook.spark.postgres.transcriber import Transcriber

logger = logging.getLogger(__name__)

_AT_ONCE = 256
_FIRST_PAUSE_SECS, _LONGEST_PAUSE_SECS = 0.1, 3.0
_BUFFERED_BATCHES = 4


class Buffer:
    """Changes in order, and the position up to which everything was received."""

    def __init__(self, position: CapturePosition, max_rows: int, max_bytes: int) -> None:
        self.begun = position.order
        self._events: list[Event] = []
        self._reached = self._required = position.order
        self._shapes = dict(position.shapes)
        self._max_rows, self._max_bytes = max_rows, max_bytes
        self._rows = self._bytes = 0
        self._changed = threading.Condition()
        self._error: BaseException | None = None

    def put(self, events: list[Event]) -> None:
        with self._changed:
            for event in events:
                if event.rows:
                    self._events.append(event)
                    self._rows += len(event.rows)
                    self._bytes += event.size_bytes
            self._reached, self._shapes = events[-1].order, events[-1].shapes
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Raise an error in all waiting threads: no more changes come."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    @property
    def reached(self) -> Order:
        """The position up to which everything was received."""
        return self._reached

    @property
    def row_count(self) -> int:
        """The number of rows that are not committed."""
        return self._rows

    @property
    def full(self) -> bool:
        """Whether the receiver should pause."""
        large = self._rows >= self._max_rows or self._bytes >= self._max_bytes
        return large and self._reached >= self._required

    def require(self, until: Order) -> None:
        """Accept everything up to a position, whatever its size: a batch that Spark has logged must be complete."""
        with self._changed:
            self._required = max(self._required, until)

    def wait(self, start: Order, until: Order | None, timeout_secs: float) -> Order:
        """Wait for changes after a position, or for everything up to another one, and return the position reached.

        Changes that were received are returned before an error is raised.
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

    def end(self, start: Order, until: Order | None, max_rows: int, max_bytes: int) -> tuple[CapturePosition, int]:
        """Decide how far a batch goes: to the last change that fits, or to where everything was received.

        Return the end and the number of rows.
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
        """Return the index of the first change after a position."""
        return bisect_right(self._events, order, key=lambda event: event.order)

    def _at_event(self, place: int) -> CapturePosition:
        return self._at(self._events[place].order, self._events[place].shapes)

    def _at(self, order: Order, shapes: dict[str, Shape]) -> CapturePosition:
        return CapturePosition(VERSION, lsn=order[0], row=order[1], shapes=shapes)

    def rows(self, start: Order, end: Order) -> Iterator[Row]:
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


class Receiver:
    """Reads changes from a slot, from a position on."""

    def __init__(
        self,
        options: CaptureOptions,
        manifest: Manifest,
        streams: Streams,
        position: CapturePosition,
        tuning: CaptureTuning,
    ) -> None:
        self._options = options
        self._feedback_secs = tuning.feedback_secs
        self._watch = Watch(options, manifest, tuning)
        self.buffer = Buffer(position, _BUFFERED_BATCHES * options.max_rows, _BUFFERED_BATCHES * options.max_bytes)
        tables = {
            record.oid: Captured(record.name, record.shape, record.partitioned) for record in wanted(options, manifest)
        }
        self._transcriber = Transcriber(
            tables,
            streams,
            CatalogInspector(options.url),
            position,
            on_truncate=options.on_truncate,
            old_values=options.old_values,
        )
        self._confirmed = self._confirmed_to_postgres = 0
        self._done_lsn = position.lsn
        self._received = position.lsn
        self._feedback_at = self._well_at = time.monotonic()
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        # The thread closes the end of the pipe that it reads, and `close` the end that it writes.
        self._woken, self._wake = os.fdopen(woken, "rb", buffering=0), os.fdopen(wake, "wb", buffering=0)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"everbrook-{options.slot}", daemon=True)
        self._thread.start()

    def confirm(self, position: CapturePosition) -> None:
        """Confirm a committed position to Postgres, and drop its changes from the buffer."""
        self.buffer.forget(position.order)
        self._confirmed = max(self._confirmed, position.lsn)
        self._wake_thread()

    def require(self, position: CapturePosition) -> None:
        """Receive everything up to a position, even beyond the bounds of the buffer."""
        self.buffer.require(position.order)
        self._wake_thread()

    def close(self) -> None:
        self._closed = True
        self._wake_thread()
        self._thread.join(timeout=5.0)
        self._wake.close()

    def _wake_thread(self) -> None:
        """Wake the thread, unless it has ended. If the pipe is full, it is awake already."""
        if not self._wake.closed:
            with suppress(BrokenPipeError):
                self._wake.write(b"\0")

    def _run(self) -> None:
        with self._woken:
            self._receive()

    def _receive(self) -> None:
        pause_secs = _FIRST_PAUSE_SECS
        while not self._closed:
            began = time.monotonic()
            try:
                self._session()
            except (PostgresAway, psycopg.OperationalError) as error:
                if time.monotonic() - self._well_at > self._options.reconnect_secs:
                    self.buffer.fail(_given_up(error, self._options.reconnect_secs))
                    return
                logger.warning("changes can't be received for now: %s", error)
                pause_secs = _FIRST_PAUSE_SECS if self._well_at > began else min(2 * pause_secs, _LONGEST_PAUSE_SECS)
                time.sleep(pause_secs)
            except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for changes
                self.buffer.fail(error)
                return

    def _session(self) -> None:
        """Receive over one connection, until it breaks."""
        with connect(self._options.url) as connection:
            self._watch.look(connection, self.buffer.reached[0])
            # A slot that was moved or created again would skip changes silently.
            check_slot(connection, self._options.slot, max(self._done_lsn, self._confirmed))
        replication = Replication(self._options.url)
        try:
            replication.start(self._options.slot, self._options.publication)
            self._transcriber.reconnected()
            # Postgres may have lost the last confirmation with the connection, so it is sent again.
            self._confirmed_to_postgres = 0
            while not self._closed:
                self._turn(replication)
                if self._watch.due:
                    self._look()
        finally:
            replication.close()

    def _look(self) -> None:
        with connect(self._options.url) as connection:
            self._watch.look(connection, self.buffer.reached[0])

    def _turn(self, replication: Replication) -> None:
        """Receive some frames, send feedback, and wait if there were none."""
        self._well_at = time.monotonic()
        waiting = [self._woken.fileno()]
        if not self.buffer.full:
            if self._take(replication):
                self._send_feedback(replication)
                return
            waiting.append(replication.socket)
        self._send_feedback(replication)
        ready, _, _ = select.select(waiting, [], [], self._feedback_secs)
        if self._woken.fileno() in ready:
            self._woken.read(4096)

    def _take(self, replication: Replication) -> bool:
        """Receive available frames, up to a number, and return whether there were any."""
        events: list[Event] = []
        count = 0
        try:
            while count < _AT_ONCE and (frame := replication.receive()) is not None:
                count += 1
                event = self._event(replication, frame)
                if event is not None:
                    events.append(event)
        finally:
            # Events before an error are valid, and may complete a batch that was planned.
            if events:
                self.buffer.put(events)
        return count > 0

    def _event(self, replication: Replication, frame: bytes) -> Event | None:
        parsed = parse_frame(frame)
        if isinstance(parsed, Data):
            message = parse_message(parsed.payload)
            if isinstance(message, Relation) and self._watch.unsure:
                self._look()  # before its rows: the table or the publication may have changed
            return None if message is None else self._transcriber.feed(message)
        self._received = max(self._received, parsed.wal_end)
        if parsed.reply_wanted:
            replication.send_feedback(self._received)
        return self._transcriber.reached(parsed.wal_end)

    def _send_feedback(self, replication: Replication) -> None:
        """Send feedback: at once for what was committed, at intervals for what was received."""
        now = time.monotonic()
        if self._confirmed > self._confirmed_to_postgres or now - self._feedback_at > self._feedback_secs:
            confirmed = self._confirmed if self._confirmed > self._confirmed_to_postgres else 0
            replication.send_feedback(max(self._received, self._confirmed), confirmed)
            self._confirmed_to_postgres, self._feedback_at = max(self._confirmed_to_postgres, confirmed), now


def _given_up(error: Exception, after_secs: int) -> PostgresAway:
    return PostgresAway(f"{error}. This was tried for {after_secs} s (reconnectSecs)")
