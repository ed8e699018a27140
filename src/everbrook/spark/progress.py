"""Progress: how far a query is behind each stream, and a stream of what queries do.

Spark's own progress does not tell where streams end, since small batches are read on the driver: so the server is
asked, for all streams of a query at once.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from everbrook.client.errors import ClientError
from everbrook.protocol.dialects import Remove, Set, format_state
from everbrook.protocol.errors import ProtocolError
from everbrook.spark.catalogue import Catalogue, open_catalogue
from everbrook.spark.connection import connect
from everbrook.spark.options import Selection, ServerOptions
from everbrook.spark.positions import VERSION_KEY, number_of, parse_position

_TYPE = "query"


def lag(
    progress: Any,  # noqa: ANN401 - Spark has several kinds of it
    *,
    url: str | None = None,
    bucket: str | None = None,
    token: str | None = None,
) -> dict[str, int]:
    """Give how many bytes of each stream a query has not read yet, by the progress of its last batch."""
    positions = positions_of(progress)
    if not positions:
        return {}
    connection = connect(ServerOptions(url=url, token=token), bucket)
    catalogue = open_catalogue(connection, Selection(names=tuple(positions), bucket=bucket))
    catalogue.refresh()
    return lag_of(positions, catalogue)


def positions_of(progress: Any) -> dict[str, str]:  # noqa: ANN401
    """Give the positions that a batch has come to, in the sources that are ours."""
    found: dict[str, str] = {}
    for source in progress.sources:
        try:
            positions = json.loads(source.endOffset or "null")
        except ValueError:
            continue
        if isinstance(positions, dict) and VERSION_KEY in positions:
            found |= {name: text for name, text in positions.items() if name != VERSION_KEY}
    return found


def lag_of(positions: Mapping[str, str], catalogue: Catalogue) -> dict[str, int]:
    """Compare positions with where streams end. Of servers whose offsets are no numbers nothing is said."""
    lags: dict[str, int] = {}
    for name, text in positions.items():
        tail = catalogue.streams[name].tail if name in catalogue.streams else None
        end, here = number_of(tail or ""), number_of(parse_position(text).offset)
        if end is not None and here is not None:
            lags[name] = max(end - here, 0)
    return lags


class ProgressListener(StreamingQueryListener):
    """Appends the progress of all queries of a session to a stream, as changes of the State protocol.

        spark.streams.addListener(ProgressListener("queries", url="http://127.0.0.1:4437"))

    There is one entity of the type `query` for each, which goes when it ends well. What can't be appended is dropped:
    a query never fails because of it.
    """

    def __init__(
        self, stream: str, *, url: str | None = None, source_url: str | None = None, token: str | None = None
    ) -> None:
        """Write to a stream, which is created if it is not there. `source_url` is where queries read, if elsewhere."""
        self._name = stream
        self._server = ServerOptions(url=url, token=token)
        self._source = ServerOptions(url=source_url or url, token=token)
        self._catalogues: dict[str, tuple[frozenset[str], Catalogue]] = {}
        connect(self._server).stream(stream).create()

    def onQueryStarted(self, event: Any) -> None:  # noqa: ANN401, N802 - Spark's names, as those below
        """Tell that a query has begun."""
        self._set(str(event.id), {"name": event.name, "status": "started", "started_at": event.timestamp})

    def onQueryProgress(self, event: Any) -> None:  # noqa: ANN401, N802
        """Tell what a batch did, and how far the query is behind."""
        progress = event.progress
        lags = self._lags(str(progress.id), progress)
        self._set(
            str(progress.id),
            {
                "name": progress.name,
                "status": "running",
                "batch": progress.batchId,
                "rows": progress.numInputRows,
                "rows_per_second": progress.processedRowsPerSecond,
                "duration_ms": dict(progress.durationMs),
                "lag_bytes": sum(lags.values()),
                "lag_by_stream": lags,
            },
        )

    def onQueryIdle(self, event: Any) -> None:  # noqa: ANN401, N802
        """Say nothing: where nothing happens nothing changes."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: ANN401, N802
        """Tell that a query has ended."""
        self._catalogues.pop(str(event.id), None)
        if event.exception is None:
            self._append(format_state(Remove(_TYPE, str(event.id), timestamp=_now())))
        else:
            self._set(str(event.id), {"status": "failed", "error": str(event.exception)[:2000]})

    def _lags(self, query: str, progress: Any) -> dict[str, int]:  # noqa: ANN401
        positions = positions_of(progress)
        if not positions:
            return {}
        names, catalogue = self._catalogues.get(query, (frozenset(), None))
        try:
            if catalogue is None or names != positions.keys():
                catalogue = open_catalogue(connect(self._source), Selection(names=tuple(positions)))
                self._catalogues[query] = frozenset(positions), catalogue
            catalogue.refresh()
        except (ProtocolError, ClientError):
            return {}
        return lag_of(positions, catalogue)

    def _set(self, query: str, value: dict[str, Any]) -> None:
        self._append(format_state(Set(_TYPE, query, value, timestamp=_now())))

    def _append(self, message: dict[str, Any]) -> None:
        try:
            connect(self._server).stream(self._name, "application/json").append(message)
        except (ProtocolError, ClientError):
            return  # what a query does matters more than what is told of it


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
