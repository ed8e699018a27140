"""Publishing: what jobs do, appended to a stream once a second, so that a page, or `pipeline status`, can show it.

There is an entity of the type `job` for each, and one of the type `runner`, whose `heartbeat_at` tells that somebody is
still there to say something: without it, the last word of a runner that was killed would be "running" for ever.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import structs

from everbrook.protocol.state_changes import Set, format_state
from everbrook.spark.jobs.board import Board, JobState, State
from everbrook.spark.jobs.job import Lag, LagOf
from everbrook.spark.progress_stream import ProgressStream, now

JOB, RUNNER = "job", "runner"
HEARTBEAT_SECS = 5.0
_TICK_SECS = 1.0
_LAST_WORD_SECS = 5.0


class Publisher(threading.Thread):
    """Watches the board."""

    def __init__(
        self, board: Board, stream: ProgressStream | None, lags: Mapping[str, LagOf], last: Callable[[str], Any]
    ) -> None:
        """Publish to a stream, if there is one. `last` gives the last progress of a job, if there is any."""
        super().__init__(name="publisher", daemon=True)
        self._board = board
        self._stream = stream
        self._lags = lags
        self._last = last
        self._ended = threading.Event()
        self._told: dict[str, JobState] = {}
        self._rows = {state.job: 0 for state in board.states()}
        self._ticked = time.monotonic()
        self._runner = {"pid": os.getpid(), "host": socket.gethostname(), "started_at": now()}
        self._beat = 0.0
        self._created = False

    def run(self) -> None:
        """Tell what is new, once a second."""
        while not self._ended.wait(_TICK_SECS):
            self._measure()
            self._find_lags()
            self._publish()
            if self._stream is not None and self._created:
                self._stream.cut()

    def end(self) -> None:
        """Tell how it ended, if somebody listens."""
        self._ended.set()
        self.join(_LAST_WORD_SECS)
        if not self.is_alive():
            last_word = threading.Thread(target=self._publish, kwargs={"ended": True}, daemon=True)
            last_word.start()
            last_word.join(_LAST_WORD_SECS)

    def _measure(self) -> None:
        passed, self._ticked = time.monotonic() - self._ticked, time.monotonic()
        for state in self._board.states():
            rate = round((state.rows - self._rows[state.job]) / passed, 1)
            self._rows[state.job] = state.rows
            if rate != state.rows_per_second:
                self._board.change(state.job, rows_per_second=rate)

    def _find_lags(self) -> None:
        for state in self._board.states():
            progress = self._last(state.job)
            if state.state is State.RUNNING and progress is not None:
                lag = self._lags[state.job](progress)
                if lag != Lag(state.lag_bytes, state.slot_bytes):
                    self._board.change(state.job, **structs.asdict(lag))

    def _publish(self, *, ended: bool = False) -> None:
        if self._stream is None:
            return
        changed = [state for state in self._board.states() if self._told.get(state.job) != state]
        messages = [format_state(Set(JOB, state.job, structs.asdict(state), timestamp=now())) for state in changed]
        if ended or time.monotonic() - self._beat >= HEARTBEAT_SECS:
            messages.append(format_state(Set(RUNNER, RUNNER, self._heartbeat(ended=ended), timestamp=now())))
        if messages and self._append(messages):
            self._told |= {state.job: state for state in changed}

    def _heartbeat(self, *, ended: bool) -> dict[str, Any]:
        self._beat = time.monotonic()
        return {**self._runner, "state": "stopped" if ended else "running", "heartbeat_at": now()}

    def _append(self, messages: list[dict[str, Any]]) -> bool:
        assert self._stream is not None  # noqa: S101 - asked for above
        if not self._created:
            self._created = self._stream.created()
        return self._created and self._stream.append(messages)
