"""Lags: how far a query is behind each stream.

Spark's own progress does not tell where streams end, since small batches are read on the driver: so the server is
asked, for all streams of a query at once.
"""

import json
from collections.abc import Mapping
from typing import Any

from everbrook.client.errors import ClientError
from everbrook.protocol.errors import ProtocolError
from everbrook.spark.catalogue import Catalogue, open_catalogue
from everbrook.spark.connection import connect
from everbrook.spark.options import Selection, ServerOptions
from everbrook.spark.positions import VERSION_KEY, number_of, parse_position


def lag(
    progress: Any,
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


def positions_of(progress: Any) -> dict[str, str]:
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
        if name not in catalogue.streams:
            continue
        there, position = catalogue.streams[name].end, parse_position(text)
        end, here = number_of(there.offset), 0 if position.differs(there) else number_of(position.offset)
        if end is not None and here is not None:
            lags[name] = max(end - here, 0)
    return lags


class LagFinder:
    """Tells how far a query is behind, again and again, for one request each time."""

    def __init__(self, server: ServerOptions, bucket: str | None = None) -> None:
        self._server = server
        self._bucket = bucket
        self._names: frozenset[str] = frozenset()
        self._catalogue: Catalogue | None = None

    def find(self, progress: Any) -> dict[str, int]:
        """Give the lag of each stream. Nothing is said if the server can't be asked now."""
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
