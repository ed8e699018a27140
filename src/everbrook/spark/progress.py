"""The progress of queries and jobs: how far they are behind, and a stream in which it is published.

This needs no Spark: the lag is computed from the progress of a query, and `pipeline status` reads the stream.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from everbrook.client.errors import ClientError
from everbrook.protocol.errors import ProtocolError
from everbrook.protocol.state_changes import Remove, Set, format_state
from everbrook.spark.connection import connect
from everbrook.spark.options import Selection, ServerOptions
from everbrook.spark.streams.catalogue import Catalogue, open_catalogue
from everbrook.spark.streams.offsets import VERSION_KEY, number_of, parse_position

_CUT_AFTER = 10_000
"""After so many messages the history is replaced by a snapshot."""


def lag(
    progress: Any,
    *,
    url: str | None = None,
    bucket: str | None = None,
    token: str | None = None,
) -> dict[str, int]:
    """Return how many bytes of each stream a query has not read yet, by the progress of its last batch."""
    positions = positions_of(progress)
    if not positions:
        return {}
    connection = connect(ServerOptions(url=url, token=token), bucket)
    catalogue = open_catalogue(connection, Selection(names=tuple(positions), bucket=bucket))
    catalogue.refresh()
    return lag_of(positions, catalogue)


def positions_of(progress: Any) -> dict[str, str]:
    """Return the positions at the end of a batch, in the sources of this format."""
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
    """Compare positions with the ends of streams. Streams whose offsets are no numbers are left out."""
    lags: dict[str, int] = {}
    for name, text in positions.items():
        if name not in catalogue.streams:
            continue
        there, position = catalogue.streams[name].end, parse_position(text)
        end, here = number_of(there.offset), 0 if position.differs(there) else number_of(position.offset)
        if end is not None and here is not None:
            lags[name] = max(end - here, 0)
    return lags


class LagFinder:
    """Finds how far a query is behind, with one request each time."""

    def __init__(self, server: ServerOptions, bucket: str | None = None) -> None:
        self._server = server
        self._bucket = bucket
        self._names: frozenset[str] = frozenset()
        self._catalogue: Catalogue | None = None

    def find(self, progress: Any) -> dict[str, int]:
        """Return the lag of each stream, or nothing if the server does not respond."""
        positions = positions_of(progress)
        if not positions:
            return {}
        try:
            catalogue = self._looking_at(frozenset(positions))
            catalogue.refresh()
        except (ProtocolError, ClientError):
            return {}
        return lag_of(positions, catalogue)

    def _looking_at(self, names: frozenset[str]) -> Catalogue:
        if self._catalogue is None or self._names != names:
            selection = Selection(names=tuple(names), bucket=self._bucket)
            self._catalogue = open_catalogue(connect(self._server, self._bucket), selection)
            self._names = names
        return self._catalogue


class ProgressStream:
    """A stream with the progress of queries and jobs, as changes of the State protocol.

    A message that can't be appended is dropped: no query fails because of its progress. A long history is replaced by
    a snapshot, so that readers read little.
    """

    def __init__(self, name: str, server: ServerOptions) -> None:
        self._name = name
        self._server = server
        self._uncut = _CUT_AFTER  # the history of earlier runs is cut with the first message

    def create(self) -> None:
        """Create the stream unless it exists."""
        connect(self._server).stream(self._name).create()

    def created(self) -> bool:
        """Create the stream unless it exists. False if the server does not respond: the caller tries again later."""
        try:
            self.create()
        except (ProtocolError, ClientError):
            return False
        return True

    def set(self, kind: str, key: str, value: Mapping[str, Any]) -> None:
        self.append([format_state(Set(kind, key, dict(value), timestamp=now()))])

    def remove(self, kind: str, key: str) -> None:
        self.append([format_state(Remove(kind, key, timestamp=now()))])

    def append(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Append messages, and return whether they are stored."""
        try:
            connect(self._server).stream(self._name, "application/json").extend(messages)
        except (ProtocolError, ClientError):
            return False
        self._uncut += len(messages)
        return True

    def cut(self) -> None:
        """Replace a long history by a snapshot of its state."""
        if self._uncut < _CUT_AFTER:
            return
        try:
            with connect(self._server).stream(self._name).materialise(on_invalid=_pass_by) as state:
                state.publish()
        except (ProtocolError, ClientError):
            return  # a server without snapshots keeps it all
        finally:
            # Also after an error: the next attempt comes after as many messages again, not with each one.
            self._uncut = 0


def _pass_by(_error: Exception) -> None:
    pass


def now() -> str:
    """Return the time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
