"""The catalogue of a query: which streams it reads, and where each of them ends. It is kept on the driver.

A server that lists its streams returns all of them once, and after that those that changed: the cost of a look depends
on the changes, not on the number of streams. From other servers only streams known by name are read, with a
request for each.
"""

import time
from abc import ABC, abstractmethod
from os.path import commonprefix
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from everbrook.client.errors import Unsupported
from everbrook.client.models import Changes, StreamInfo
from everbrook.client.wire.request import ConnectionBroken
from everbrook.protocol.errors import NotFound, OffsetGone, ProtocolError
from everbrook.protocol.subscriptions.pattern import GlobTrie, literal_prefix
from everbrook.spark.connection import Connection
from everbrook.spark.options import Selection
from everbrook.spark.streams.offsets import BEGINNING, Position, format_position, offset_of

FEW_STREAMS = 200
"""Up to here streams known by name are looked up one by one; beyond, they are picked from the whole list."""
_FIRST_PAUSE_SECS, _LONGEST_PAUSE_SECS = 0.005, 0.02
_FOREIGN_PAUSE_SECS = 0.1
_LISTING, _BOUNDED = "listing", "bounded-reads"


class Found(Struct, frozen=True):
    """The description of a stream in the list of the server."""

    tail: str
    earliest: str = BEGINNING
    created_at_ms: int | None = None
    closed: bool = False
    content_type: str = ""
    snapshot: str | None = None
    """The offset of its snapshot, if it has one."""
    snapshot_bytes: int = 0
    snapshot_at_ms: int | None = None
    incarnation: str = ""
    expires: bool = False
    """Whether it has a time to live or an expiry."""

    @property
    def end(self) -> Position:
        """Its current end."""
        return Position(self.tail, self.created_at_ms, self.closed, self.incarnation, self.expires)


class Catalogue(Protocol):
    """The streams of a query. `exact` means that offsets count bytes and that reads can be bounded."""

    streams: dict[str, Found]
    ends: dict[str, str]
    """The end of each, as a checkpoint has it."""
    gone: dict[str, list[Position]]
    """The ends of deleted streams, as far as the server reports them: of each name, the earliest first."""
    forgotten: bool
    """Whether the server could not list the changes since the last look."""
    token: str | None
    """The token of the list of streams, with which the server lists later changes."""
    exact: bool

    def refresh(self) -> None:
        """Update the streams and their ends."""

    def recall(self, token: str) -> None:
        """Look up the ends of streams that were deleted since a token was given, if the server still has them."""

    def wait(self, secs: float) -> None:
        """Wait until a stream grows, is created or is deleted, at most for so long."""


def open_catalogue(connection: Connection, selection: Selection) -> Catalogue:
    """Choose the catalogue by the extensions of the server."""
    extensions = _extensions(connection, selection)
    if _LISTING in extensions and _BOUNDED in extensions:
        return ListedCatalogue(connection, selection)
    if not selection.names:
        raise Unsupported(
            "this server does not list its streams: name those to read with the option stream or streams "
            "(streamPrefix, streamPattern and bucket need a list)"
        )
    return NamedCatalogue(connection, selection.names)


def _extensions(connection: Connection, selection: Selection) -> frozenset[str]:
    """Find the extensions of the server by the head of a stream, or by whether it has a list of streams."""
    for name in selection.names:
        try:
            return connection.head(name).extensions
        except NotFound:
            continue
    try:
        connection.first(selection.names[0] if selection.names else selection.prefix or "-")
    except Unsupported:
        return frozenset()
    return frozenset({_LISTING, _BOUNDED})


class _Known(ABC):
    """What both kinds of catalogue keep."""

    def __init__(self) -> None:
        self.streams: dict[str, Found] = {}
        self.ends: dict[str, str] = {}
        self.gone: dict[str, list[Position]] = {}
        self.forgotten = False
        self.token: str | None = None
        self._moves = 0

    @abstractmethod
    def refresh(self) -> None: ...

    def _keep(self, name: str, found: Found) -> None:
        end = format_position(found.end)
        self._moves += self.ends.get(name) != end
        self.streams[name] = found
        self.ends[name] = end

    def _drop(self, name: str) -> None:
        self._moves += name in self.streams
        self.streams.pop(name, None)
        self.ends.pop(name, None)

    def _poll(self, secs: float, first_pause_secs: float, longest_pause_secs: float) -> None:
        """Refresh with growing pauses until a stream has changed."""
        deadline, before, pause = time.monotonic() + secs, self._moves, first_pause_secs
        while self._moves == before and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(pause * 1.5, longest_pause_secs)
            self.refresh()

    def _follow(self, connection: Connection, name: str, secs: float) -> None:
        """Wait for more of a stream. If that fails, the next refresh raises the error, or waits until it passes."""
        known = self.streams[name]
        try:
            head = connection.wait(name, known.tail, secs)
        except (ProtocolError, ConnectionBroken):
            return
        if head is not None and head.incarnation == known.incarnation:
            self._keep(name, replace(known, tail=head.offset, closed=head.closed))


class ListedCatalogue(_Known):
    """Streams of a server that lists changes."""

    exact = True

    def __init__(self, connection: Connection, selection: Selection) -> None:
        super().__init__()
        self._connection = connection
        self._names = frozenset(selection.names)
        self._pattern: GlobTrie[bool] | None = None
        self._prefix = commonprefix(list(selection.names)) or selection.prefix  # noqa: RUF071 - a prefix, not a path
        if selection.pattern is not None:
            self._pattern = GlobTrie()
            self._pattern.add(selection.pattern, value=True)
            self._prefix = literal_prefix(selection.pattern)

    def refresh(self) -> None:
        moved = None if self.token is None else self._moved_since(self.token)
        if moved is None:
            self._begin()
            return
        self.token = moved.token
        for info in moved.streams:
            self._take(info)

    def _moved_since(self, token: str) -> Changes | None:
        """List the changes since a token. None if the token is too old, or of an earlier run of the server."""
        try:
            return self._connection.changes(token, self._prefix)
        except ProtocolError as refusal:
            if refusal.status != OffsetGone.status:
                raise
            self.forgotten = True
            return None

    def recall(self, token: str) -> None:
        moved = self._moved_since(token)
        for info in moved.streams if moved else ():
            if info.status == "Deleted":
                self._note_end(info)

    def _note_end(self, info: StreamInfo) -> None:
        if info.incarnation:
            end = Position(offset_of(info.tail_offset), incarnation=info.incarnation)
            self.gone.setdefault(info.name, []).append(end)

    def _begin(self) -> None:
        if 0 < len(self._names) <= FEW_STREAMS:
            self._look_up()
            return
        listed = self._connection.changes(None, self._prefix)
        self.token = listed.token
        self._replace(listed.streams)

    def _look_up(self) -> None:
        """Request each stream.

        The token of the first response is kept: streams that change meanwhile are listed again.
        """
        pages = {name: self._connection.first(name) for name in sorted(self._names)}
        self.token = next(iter(pages.values())).token
        self._replace([info for name, page in pages.items() for info in page.streams if info.name == name])

    def _replace(self, infos: list[StreamInfo]) -> None:
        """Take the list of all streams. Streams that it lacks were deleted."""
        for name in self.streams.keys() - {info.name for info in infos}:
            self._drop(name)
        for info in infos:
            self._take(info)

    def _take(self, info: StreamInfo) -> None:
        if not self._matches(info.name):
            return
        if info.status == "Deleted":
            self._drop(info.name)
            self._note_end(info)
        elif info.status != "Damaged":  # the list has no offsets of a damaged stream; to read it raises the error
            self._keep(info.name, _found(info))

    def _matches(self, name: str) -> bool:
        if self._names:
            return name in self._names
        return self._pattern is None or bool(self._pattern.match(name))

    def wait(self, secs: float) -> None:
        alone = self._alone()
        if alone is not None:
            self._follow(self._connection, alone, secs)
        else:
            self._poll(secs, _FIRST_PAUSE_SECS, _LONGEST_PAUSE_SECS)

    def _alone(self) -> str | None:
        """Return the open stream of a query that reads only this one: a long-poll is enough to wait for it."""
        if len(self._names) != 1:
            return None
        return next((name for name, found in self.streams.items() if not found.closed), None)


def _found(info: StreamInfo) -> Found:
    return Found(
        offset_of(info.tail_offset),
        offset_of(info.earliest_offset),
        info.created_at_ms,
        info.closed,
        info.content_type,
        None if info.snapshot_offset is None else offset_of(info.snapshot_offset),
        info.snapshot_bytes,
        info.snapshot_at_ms,
        info.incarnation,
        info.ttl_secs is not None or info.expires_at_ms is not None,
    )


class NamedCatalogue(_Known):
    """Streams known by name, of a server that is asked for each of them."""

    exact = False

    def __init__(self, connection: Connection, names: tuple[str, ...]) -> None:
        super().__init__()
        self._connection = connection
        self._names = names

    def refresh(self) -> None:
        for name in self._names:
            try:
                head = self._connection.head(name)
            except NotFound:
                self._drop(name)
                continue
            earliest = head.earliest_offset or BEGINNING
            self._keep(
                name,
                Found(
                    head.offset,
                    earliest,
                    closed=head.closed,
                    content_type=head.content_type,
                    incarnation=head.incarnation,
                    expires=head.ttl_secs is not None or head.expires_at is not None,
                ),
            )

    def recall(self, token: str) -> None:
        """Do nothing: the server has no list of changes."""

    def wait(self, secs: float) -> None:
        only = self._names[0]
        if len(self._names) == 1 and only in self.streams and not self.streams[only].closed:
            self._follow(self._connection, only, secs)
        else:
            self._poll(secs, _FOREIGN_PAUSE_SECS, _FOREIGN_PAUSE_SECS)
