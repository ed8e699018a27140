"""A listener that publishes the progress of a session's queries in a stream."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from everbrook.spark.options import ServerOptions
from everbrook.spark.progress import LagFinder, ProgressStream

_TYPE = "query"


class ProgressListener(StreamingQueryListener):
    """Appends the progress of all queries of a session to a stream, as changes of the State protocol.

        spark.streams.addListener(ProgressListener("queries", url="http://127.0.0.1:4437"))

    Each query is an entity of the type `query`, which is removed when the query ends without an error. A message that
    can't be appended is dropped: no query fails because of it.
    """

    def __init__(
        self, stream: str, *, url: str | None = None, source_url: str | None = None, token: str | None = None
    ) -> None:
        """Write to a stream, which is created unless it exists.

        `source_url` is the server of the sources, if it is another.
        """
        self._stream = ProgressStream(stream, ServerOptions(url=url, token=token))
        self._source = ServerOptions(url=source_url or url, token=token)
        self._lags: dict[str, LagFinder] = {}
        self._stream.create()

    def onQueryStarted(self, event: Any) -> None:
        value = {"name": event.name, "status": "started", "started_at": event.timestamp}
        self._stream.set(_TYPE, str(event.id), value)

    def onQueryProgress(self, event: Any) -> None:
        """Publish the numbers of a batch, and the lag of the query."""
        progress = event.progress
        lags = self._lags.setdefault(str(progress.id), LagFinder(self._source)).find(progress)
        self._stream.set(_TYPE, str(progress.id), {**facts_of(progress), **_lag_facts(lags)})

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing: the last progress is still true."""

    def onQueryTerminated(self, event: Any) -> None:
        self._lags.pop(str(event.id), None)
        if event.exception is None:
            self._stream.remove(_TYPE, str(event.id))
        else:
            self._stream.set(_TYPE, str(event.id), {"status": "failed", "error": str(event.exception)[:2000]})


def facts_of(progress: Any) -> dict[str, Any]:
    """Return the numbers of a batch."""
    return {
        "name": progress.name,
        "status": "running",
        "batch": progress.batchId,
        "rows": progress.numInputRows,
        "rows_per_second": progress.processedRowsPerSecond,
        "duration_ms": dict(progress.durationMs),
    }


def _lag_facts(lags: Mapping[str, int]) -> dict[str, Any]:
    return {"lag_bytes": sum(lags.values()), "lag_by_stream": dict(lags)}
