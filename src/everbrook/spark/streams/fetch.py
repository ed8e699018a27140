"""Fetches exactly the messages of some ranges, as Arrow batches, in the task that reads them.

A task requests [start, end) from a server with bounded reads. On any other server it makes a fork at `end`, reads the
fork to its tail and deletes it: it has the same messages, whatever is appended meanwhile.
"""

import logging
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from everbrook.client.errors import StreamRewound
from everbrook.client.refusals import header_of
from everbrook.client.tables.table_page import TablePage, table_pages_of
from everbrook.protocol.errors import InvalidOffset, NotFound, OffsetGone
from everbrook.protocol.frames import CONTENT_TYPE as FRAMES, decode_frames
from everbrook.spark.connection import Connection
from everbrook.spark.http_pipeline import OK, Broken, PipelinedConnection, Response
from everbrook.spark.streams.bundle import StreamPiece
from everbrook.spark.streams.losses import data_loss, shown
from everbrook.spark.streams.offsets import number_of
from everbrook.spark.streams.ranges import Range

logger = logging.getLogger(__name__)

AHEAD = 4
"""How many streams a task requests ahead."""
FORK_TTL_SECS = 3600
MANY = 16
"""From so many streams on a task uses a connection of its own for them."""


class ReadTask(Struct, frozen=True):
    """What one task reads. `exact` says that the server can bound reads."""

    ranges: tuple[Range, ...]
    content_types: tuple[str, ...]
    exact: bool = True


def read_task(connection: Connection, task: ReadTask, *, fail_on_data_loss: bool) -> Iterator[StreamPiece]:
    """Read all ranges of a task, one after the other."""
    reading = Reading(connection, task.exact, fail_on_data_loss)
    waiting = deque(zip(task.ranges, task.content_types, strict=True))
    pipeline = connection.pipeline() if task.exact and len(waiting) >= MANY else None
    if pipeline is not None:
        with closing(pipeline):
            yield from _pipelined(reading, waiting, pipeline)
    with ThreadPoolExecutor(max_workers=AHEAD) as pool:
        yield from _overlapped(reading, waiting, pool)


def _pipelined(
    reading: "Reading", waiting: "deque[tuple[Range, str]]", pipeline: PipelinedConnection
) -> Iterator[StreamPiece]:
    """Read ranges until the connection breaks. The general client reads what is larger than a page, or refused."""
    connection = reading.connection
    targets = (connection.frames_target(range_.name, range_.start, range_.end) for range_, _ in tuple(waiting))
    try:
        for response in pipeline.get(targets, connection.transport.credentials):
            range_, content_type = waiting[0]
            for piece in reading.from_response(range_, response):
                yield StreamPiece(range_.name, content_type, piece)
            waiting.popleft()
    except Broken as error:
        logger.info("a pipelined connection broke, so the other streams are read one by one: %s", error)


def _overlapped(
    reading: "Reading", waiting: "deque[tuple[Range, str]]", pool: ThreadPoolExecutor
) -> Iterator[StreamPiece]:
    """Request the first pages of the next streams while one is being read, and the next page of that one."""
    ahead: deque[tuple[Range, str, Iterator[TablePage], Future[TablePage | None]]] = deque()
    while ahead or waiting:
        while waiting and len(ahead) < AHEAD:
            range_, content_type = waiting.popleft()
            pieces = reading.pieces(range_)
            ahead.append((range_, content_type, pieces, pool.submit(next, pieces, None)))
        range_, content_type, pieces, future = ahead.popleft()
        while (piece := future.result()) is not None:
            future = pool.submit(next, pieces, None)
            yield StreamPiece(range_.name, content_type, piece)


class Reading(Struct, frozen=True):
    """Reads ranges, and raises or logs a loss when messages are missing."""

    connection: Connection
    exact: bool
    fail_on_data_loss: bool

    def pieces(self, range_: Range) -> Iterator[TablePage]:
        """Read a range, and check that it is complete."""
        end = range_.start
        try:
            for piece in self._bounded(range_) if self.exact else self._forked(range_):
                end = piece.next_offset
                yield piece
        except NotFound as error:
            self._lost(range_, f"is gone; {range_.end} was to be read", error)
            return
        except (StreamRewound, InvalidOffset) as error:
            self._lost(range_, f"has another incarnation; {range_.end} was to be read: {error}", error)
            return
        if end != range_.end and not (range_.fresh and number_of(range_.end) == 0):
            self._lost(range_, f"ends at {end}; {range_.end} was to be read", None)

    def from_response(self, range_: Range, response: Response) -> Iterator[TablePage]:
        """Read a range whose first page was requested already."""
        usable = response.status == OK and response.headers.get(b"content-type") == FRAMES
        # Another incarnation of the stream has other messages at the same offsets. The general client raises that.
        if not usable or not response.is_of(range_.incarnation):
            yield from self.pieces(range_)
            return
        frames = decode_frames(response.body)
        rest = range_
        if len(frames):
            piece = TablePage(frames=frames)
            yield piece
            rest = replace(range_, start=piece.next_offset, fresh=False, incarnation=response.incarnation)
        if rest.start != range_.end:
            yield from self.pieces(rest)

    def _bounded(self, range_: Range) -> Iterator[TablePage]:
        stream = self.connection.stream(range_.name)
        try:
            for frames in stream.frames(range_.start, until=range_.end, incarnation=range_.incarnation):
                yield TablePage(frames=frames)
        except OffsetGone as gone:
            earliest = header_of(gone, "Stream-Earliest-Offset")
            # A fresh range begins with whatever is retained, so a cut at its beginning is no loss.
            if not range_.fresh:
                self._lost(range_, f"begins at {earliest} now; {range_.start} was to be read", gone)
            if earliest is not None and range_.start < earliest < range_.end:
                yield from self._bounded(replace(range_, start=earliest, fresh=True))

    def _forked(self, range_: Range) -> Iterator[TablePage]:
        """Read through a fork (§4.2). If the task is killed, the fork expires."""
        name = f"{range_.name}-spark-{uuid4().hex}"
        fork = self.connection.stream(range_.name).fork(name, offset=range_.end, ttl_secs=FORK_TTL_SECS)
        try:
            for page in fork.read(range_.start).pages():
                yield from table_pages_of(page)
        finally:
            fork.delete(missing_ok=True)

    def _lost(self, range_: Range, loss: str, error: Exception | None) -> None:
        text = f"{range_.name!r} {loss}{shown(range_.incarnation)}"
        if self.fail_on_data_loss:
            raise data_loss([text]) from error
        logger.warning("messages were lost: %s", text)
