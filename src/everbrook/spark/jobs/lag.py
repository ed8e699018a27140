"""The lag of a job, measured as the kind of its source requires."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from everbrook.client.errors import ClientError
from everbrook.protocol.errors import ProtocolError
from everbrook.spark.options import ServerOptions
from everbrook.spark.progress import LagFinder

if TYPE_CHECKING:
    from everbrook.spark.folds.fold_options import FoldOptions
    from everbrook.spark.streams.catalogue import Catalogue

_LOOK_SECS = 5.0


class Lag(Struct, frozen=True):
    """The lag of a job, and what Postgres keeps on disk because of it, as far as they are known."""

    lag_bytes: int | None = None
    slot_bytes: int | None = None


LagOf = Callable[[Any], Lag]
"""Finds the lag of a query by its last progress, of which Spark has several kinds."""


class StreamLag:
    """Adds up what was not read yet of each stream."""

    def __init__(self, server: ServerOptions, bucket: str | None) -> None:
        self._finder = LagFinder(server, bucket)

    def find(self, progress: Any) -> Lag:
        """Compare the progress with the tails."""
        lags = self._finder.find(progress)
        return Lag(sum(lags.values()) if lags else None)


class FoldLag:
    """Measures how much of all streams no snapshot covers."""

    def __init__(self, options: "FoldOptions") -> None:
        self._options = options
        self._catalogue: Catalogue | None = None

    def find(self, _progress: Any) -> Lag:
        """Look at the streams. The lag is unknown if the server does not respond."""
        from everbrook.spark.folds.due_streams import open_streams
        from everbrook.spark.folds.fold_options import log_bytes_of

        try:
            if self._catalogue is None:
                self._catalogue = open_streams(self._options)
            else:
                self._catalogue.refresh()
        except (ProtocolError, ClientError):
            return Lag()
        return Lag(sum(log_bytes_of(found) for found in self._catalogue.streams.values()))


class SlotLag:
    """Measures how far a slot is behind. Each look opens a connection, so there is a pause between two looks."""

    def __init__(self, url: str, slot: str) -> None:
        self._url, self._slot = url, slot
        self._looked = -_LOOK_SECS
        self._found = Lag()

    def find(self, _progress: Any) -> Lag:
        """Look, or return the result of the last look."""
        if time.monotonic() - self._looked >= _LOOK_SECS:
            self._looked, self._found = time.monotonic(), self._look()
        return self._found

    def _look(self) -> Lag:
        from everbrook.spark.postgres.slot import status

        try:
            found = status(self._url, self._slot)
        except Exception:  # noqa: BLE001 - the lag is only shown, so the job continues without it
            return Lag()
        return Lag() if found.wal_status == "missing" else Lag(found.lag_bytes, found.retained_bytes)
