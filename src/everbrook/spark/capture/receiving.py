"""Receiving changes in the background, for as long as the query runs.

The slot is confirmed only up to what Spark has committed: whatever is not committed is sent again after a crash. When
the connection breaks, a new one takes up where the slot is, and what was received before is passed over: nothing is
lost or given twice. Postgres hears of this side also while nothing is received, because the buffer is full.
"""

import logging
import os
import select
import threading
import time
from contextlib import suppress

import psycopg

from everbrook.spark.capture.beginning import wanted
from everbrook.spark.capture.buffer import Buffer
from everbrook.spark.capture.catalogue import Catalogue
from everbrook.spark.capture.errors import PostgresAway
from everbrook.spark.capture.events import Captured, Event
from everbrook.spark.capture.options import CaptureOptions
from everbrook.spark.capture.pgoutput import Relation, parse_message
from everbrook.spark.capture.positions import Position
from everbrook.spark.capture.replication import Data, Replication, connect, parse_frame
from everbrook.spark.capture.routing import Streams
from everbrook.spark.capture.slots import check_slot
from everbrook.spark.capture.spool import Manifest
from everbrook.spark.capture.transcribing import Transcriber
from everbrook.spark.capture.tuning import CaptureTuning
from everbrook.spark.capture.watching import Watch

logger = logging.getLogger(__name__)

_AT_ONCE = 256
_FIRST_PAUSE_SECS, _LONGEST_PAUSE_SECS = 0.1, 3.0
_BUFFERED_BATCHES = 4


class Receiver:
    """Reads from a slot, from a position on."""

    def __init__(
        self,
        options: CaptureOptions,
        manifest: Manifest,
        streams: Streams,
        position: Position,
        tuning: CaptureTuning,
    ) -> None:
        self._options = options
        self._tell_secs = tuning.tell_secs
        self._watch = Watch(options, manifest, tuning)
        self.buffer = Buffer(position, _BUFFERED_BATCHES * options.max_rows, _BUFFERED_BATCHES * options.max_bytes)
        tables = {
            record.oid: Captured(record.name, record.shape, record.partitioned) for record in wanted(options, manifest)
        }
        self._transcriber = Transcriber(
            tables,
            streams,
            Catalogue(options.url),
            position,
            on_truncate=options.on_truncate,
            old_values=options.old_values,
        )
        self._confirmed = self._told = 0
        self._done_lsn = position.lsn
        self._received = position.lsn
        self._told_at = self._well_at = time.monotonic()
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        # The thread closes the end that it reads, and `close` the end that it writes.
        self._woken, self._wake = os.fdopen(woken, "rb", buffering=0), os.fdopen(wake, "wb", buffering=0)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"everbrook-{options.slot}", daemon=True)
        self._thread.start()

    def confirm(self, position: Position) -> None:
        """Let Postgres forget what is committed."""
        self.buffer.forget(position.order)
        self._confirmed = max(self._confirmed, position.lsn)
        self._wake_thread()

    def require(self, position: Position) -> None:
        """Receive everything up to a position, whatever the bounds of the buffer are."""
        self.buffer.require(position.order)
        self._wake_thread()

    def close(self) -> None:
        """Stop receiving."""
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
            except BaseException as error:  # noqa: BLE001 - it is raised again, by whoever waits for changes
                self.buffer.fail(error)
                return

    def _session(self) -> None:
        """Receive over one connection, until it breaks."""
        with connect(self._options.url) as connection:
            self._watch.look(connection, self.buffer.reached[0])
            check_slot(connection, self._options.slot, max(self._done_lsn, self._confirmed))
        replication = Replication(self._options.url)
        try:
            replication.start(self._options.slot, self._options.publication)
            self._transcriber.reconnected()
            self._told = 0
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
        """Receive some frames, tell Postgres of it, and wait if there were none."""
        self._well_at = time.monotonic()
        waiting = [self._woken.fileno()]
        if not self.buffer.full:
            if self._take(replication):
                self._tell(replication)
                return
            waiting.append(replication.socket)
        self._tell(replication)
        ready, _, _ = select.select(waiting, [], [], self._tell_secs)
        if self._woken.fileno() in ready:
            self._woken.read(4096)

    def _take(self, replication: Replication) -> bool:
        """Receive frames as long as there are any, up to a number, and say whether there were any."""
        events: list[Event] = []
        count = 0
        try:
            while count < _AT_ONCE and (frame := replication.receive()) is not None:
                count += 1
                event = self._event(replication, frame)
                if event is not None:
                    events.append(event)
        finally:
            if events:
                self.buffer.put(events)
        return count > 0

    def _event(self, replication: Replication, frame: bytes) -> Event | None:
        told = parse_frame(frame)
        if isinstance(told, Data):
            message = parse_message(told.payload)
            if isinstance(message, Relation) and self._watch.unsure:
                self._look()  # before its rows: something about this table, or about the publication, is new
            return None if message is None else self._transcriber.feed(message)
        self._received = max(self._received, told.wal_end)
        if told.reply_wanted:
            replication.tell(self._received)
        return self._transcriber.reached(told.wal_end)

    def _tell(self, replication: Replication) -> None:
        """Tell Postgres of what is new: at once of what is committed, now and then of what was received."""
        now = time.monotonic()
        if self._confirmed > self._told or now - self._told_at > self._tell_secs:
            confirmed = self._confirmed if self._confirmed > self._told else 0
            replication.tell(max(self._received, self._confirmed), confirmed)
            self._told, self._told_at = max(self._told, confirmed), now


def _given_up(error: Exception, after_secs: int) -> PostgresAway:
    return PostgresAway(f"{error}. This was tried for {after_secs} s (reconnectSecs)")
