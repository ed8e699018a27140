"""Folding: what a task does with the streams it was given, one after the other, with little of each in memory.

A page is read, applied and let go of; what is held is the state alone. Snapshots are published in groups.
"""

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
from msgspec import Struct

from everbrook.client.content import JSON
from everbrook.protocol.content_type import parse_media_type
from everbrook.protocol.errors import ProtocolError
from everbrook.protocol.frames import Frames
from everbrook.spark.arrival import Arriving
from everbrook.spark.connection import Connection, connect
from everbrook.spark.folds.changes import Changes
from everbrook.spark.folds.functions import Folded, Function, load_function, messages_of
from everbrook.spark.folds.options import FoldOptions
from everbrook.spark.folds.plans import Plan, parse_plans
from everbrook.spark.folds.publishing import Ready, publish_all
from everbrook.spark.folds.reading import Log, Opening, explained, open_all, read_log
from everbrook.spark.folds.reports import Current, Gone, NotPublished, Refused, Report, batch_of, unpublished
from everbrook.spark.positions import BEGINNING, offset_of
from everbrook.spark.reading import settle_worker

GROUP_STREAMS, GROUP_BYTES = 64, 4 * 1024 * 1024


class Steps:
    """The requests of a fold. Tests override a step, to let something happen before it."""

    def read(self, connection: Connection, plan: Plan, opening: Opening) -> Log:
        """Open the log of a stream, from its snapshot on."""
        return read_log(connection, plan, opening)

    def publish(self, connection: Connection, ready: Sequence[Ready]) -> Iterator[Report]:
        """Publish snapshots."""
        return publish_all(connection, ready)


class FoldTask(metaclass=Arriving):
    """What a task does with its plans."""

    def __init__(self, options: FoldOptions, function: Function | None = None) -> None:
        """Fold changes, or by a function: the one that is given, or that the options name."""
        self._options = options
        self._function = function
        self.steps = Steps()

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold streams, and tell what became of them."""
        settle_worker()
        name, function = self._options.function, self._function
        if function is None and name is not None:
            function = load_function(name)
        connection = connect(self._options.server, self._options.selection.bucket)
        for reports in Folding(connection, self._options, function, self.steps).fold(parse_plans(batches)):
            if reports:
                yield batch_of(reports)


class Result(Struct, frozen=True):
    """What a stream was folded to."""

    folded: Folded
    entities: int = 0
    invalid: int = 0


class Pages:
    """The pages of a stream, counted as they are read. What goes wrong with reading them is kept."""

    def __init__(self, pages: Iterator[Frames]) -> None:
        self._pages = pages
        self.events = 0
        self.bytes = 0
        self.ended = False
        self.failure: Exception | None = None

    def __iter__(self) -> Iterator[Frames]:
        while (page := self._next()) is not None:
            self.events += len(page)
            self.bytes += len(page.data)
            yield page
        self.ended = True

    def _next(self) -> Frames | None:
        try:
            return next(self._pages, None)
        except Exception as error:
            self.failure = error
            raise


class Folding:
    """Folds streams of one server."""

    def __init__(self, connection: Connection, options: FoldOptions, function: Function | None, steps: Steps) -> None:
        self._connection = connection
        self._steps = steps
        self._options = options
        self._function = function

    def fold(self, plans: Sequence[Plan]) -> Iterator[list[Report]]:
        """Fold streams, and report in groups."""
        reports = [unpublished(plan, Current()) for plan in plans if plan.done]
        reports += [unpublished(plan, Gone("it was deleted, or created anew")) for plan in plans if plan.gone]
        group: list[Ready] = []
        for plan, opening in open_all(self._connection, [plan for plan in plans if not (plan.done or plan.gone)]):
            folded = self._fold(plan, opening)
            if isinstance(folded, Ready):
                group.append(folded)
            else:
                reports.append(folded)
            if len(group) >= GROUP_STREAMS or sum(len(each.data) for each in group) >= GROUP_BYTES:
                yield [*reports, *self._steps.publish(self._connection, group)]
                group, reports = [], []
        yield [*reports, *self._steps.publish(self._connection, group)]

    def _fold(self, plan: Plan, opening: Opening) -> Ready | Report:
        began = time.monotonic()
        try:
            log = self._steps.read(self._connection, plan, opening)
            pages = Pages(log.pages)
            function = self._function
            result = self._fold_changes(plan, log, pages) if function is None else _fold_by(function, log, pages)
        except NotPublished as reason:
            return unpublished(plan, reason)
        report = Report(
            plan.stream,
            plan.offset,
            offset_of(0) if log.start == BEGINNING else log.start,
            events=pages.events,
            entities=result.entities,
            log_bytes=pages.bytes,
            state_bytes=len(result.folded.data),
            invalid=result.invalid,
            took_ms=round((time.monotonic() - began) * 1000),
        )
        replaces = None if log.snapshot is None else log.snapshot.etag
        content_type = result.folded.content_type or self._content_type(plan)
        return Ready(plan, result.folded.data, content_type, replaces, self._options.keep_history, report)

    def _fold_changes(self, plan: Plan, log: Log, pages: Pages) -> Result:
        changes = Changes(skip_invalid=self._options.skip_invalid)
        changes.begin(log.snapshot)
        changes.take(iter(pages))
        changes.letters.append(self._connection, self._options, plan, log.start)
        return Result(Folded(changes.state.format(), JSON), changes.state.count, len(changes.letters))

    def _content_type(self, plan: Plan) -> str:
        """Give what the stream is of, as it was known or as it is."""
        with explained(plan):
            return plan.content_type or self._connection.head(plan.stream).content_type


def _fold_by(function: Function, log: Log, pages: Pages) -> Result:
    """Let a function of the user fold a stream. What goes wrong in it is of that stream: the others go on."""
    given: object = None
    try:
        given = function(None if log.snapshot is None else log.snapshot.data, map(messages_of, pages))
    except Exception as error:
        if pages.failure is None:
            raise Refused(f"its function failed: {type(error).__name__}: {error}") from error
    if pages.failure is not None:
        raise pages.failure  # whatever the function made of it
    if not pages.ended and next(iter(pages), None) is not None:
        raise Refused("its function gave a snapshot before it had taken all messages")
    return Result(_folded(given))


def _folded(given: object) -> Folded:
    """Refuse what a function gave if it can't be a snapshot."""
    folded = Folded(given) if isinstance(given, bytes) else given
    if not isinstance(folded, Folded):
        raise Refused(f"its function must give bytes or Folded, got {type(given).__name__}")
    if not isinstance(folded.data, bytes):
        raise Refused(f"the data of a Folded must be bytes, got {type(folded.data).__name__}")
    if folded.content_type is not None:
        try:
            parse_media_type(folded.content_type.encode("ascii"))
        except (ProtocolError, UnicodeEncodeError, AttributeError):
            raise Refused(f"the content type of a Folded must be a media type, got {folded.content_type!r}") from None
    return folded
