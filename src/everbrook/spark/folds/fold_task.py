"""The task of a fold: folds one stream after the other, and publishes snapshots in groups.

A page is read, applied and dropped; only the state is kept in memory. Changes are folded to a state. Messages that are
no changes refuse their stream, or are left out and become dead letters. Other content is folded by a function of the
user:

    def fold(state: bytes | None, batches: Iterator[pyarrow.RecordBatch]) -> bytes | Folded

It gets the last snapshot, or None, and the messages after it in order, with the columns `offset`, `next_offset`,
`appended_at` and `value`. It returns the new snapshot.

Dead letters are appended before the snapshot that leaves them out, each as an append of its own. The producer is the
folded stream, the epoch is the offset from which it is folded, and the position is the place of the message: a fold
that is repeated, or goes further, writes no letter twice. If the stream of the letters has as many producers as the
server allows, further letters are written without a producer, and a fold that is repeated may write them twice.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module

import pyarrow as pa
from msgspec import Struct

from everbrook.client.content import JSON, Kind, kind_of
from everbrook.client.models import Snapshot
from everbrook.client.tables.table_page import TablePage
from everbrook.protocol.content_type import parse_media_type
from everbrook.protocol.errors import PayloadTooLarge, ProtocolError, TooManyProducers
from everbrook.protocol.frames import Frames
from everbrook.protocol.state_changes import InvalidChange
from everbrook.spark.arrival import Arriving, settle_worker
from everbrook.spark.connection import Connection, connect
from everbrook.spark.folds.fold_options import FoldOptions
from everbrook.spark.folds.fold_requests import Log, Opening, Ready, explained, open_all, publish_all, read_log
from everbrook.spark.folds.folded_state import FoldedState, decode_messages
from everbrook.spark.folds.plan import Plan, parse_plans
from everbrook.spark.folds.report import Current, Gone, NotPublished, Overtaken, Refused, Report, batch_of, unpublished
from everbrook.spark.options import InvalidOption
from everbrook.spark.sinks.dead_letters import Letter, append_letters, cut_to_fit
from everbrook.spark.streams.appender import BatchTooLarge, Producer, QuerySuperseded
from everbrook.spark.streams.offsets import BEGINNING, offset_of

_NAMES = ["offset", "next_offset", "appended_at", "value"]
MAX_LETTERS, MAX_BYTES = 10_000, 64 * 1024 * 1024
"""A stream with more of them is refused: probably it is not a stream of changes."""
GROUP_STREAMS, GROUP_BYTES = 64, 4 * 1024 * 1024


class Folded(Struct, frozen=True):
    """A snapshot with a content type. A snapshot of plain bytes has the content type of the stream."""

    data: bytes
    content_type: str | None = None


Function = Callable[[bytes | None, Iterator[pa.RecordBatch]], bytes | Folded]


def load_function(name: str) -> Function:
    """Import a function by its name."""
    module, _, attributes = name.partition(":")
    try:
        found = import_module(module)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
    except ImportError as error:
        raise InvalidOption(f"function is {name!r}, and {module} can't be imported here: {error}") from error
    except AttributeError:
        raise InvalidOption(f"function is {name!r}, and {module} has no {attributes}") from None
    if not callable(found):
        raise InvalidOption(f"function is {name!r}, which can't be called: it is {type(found).__name__}")
    return found


def messages_of(frames: Frames) -> pa.RecordBatch:
    """Return a page as the record batch that a function gets."""
    piece = TablePage(frames=frames)
    columns = [piece.offsets(), piece.next_offsets(), piece.times(), piece.values(pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=_NAMES)


class Skipped(Struct, frozen=True):
    """A message that is no change, with its offset and the reason."""

    offset: str
    reason: str
    payload: bytes


class Letters:
    """The dead letters of one fold."""

    def __init__(self) -> None:
        self._skipped: list[Skipped] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._skipped)

    def add(self, skipped: Skipped) -> None:
        """Add a message that was skipped."""
        self._skipped.append(skipped)
        self._bytes += len(skipped.payload)
        if len(self._skipped) > MAX_LETTERS or self._bytes > MAX_BYTES:
            raise Refused(
                f"more than {len(self._skipped) - 1:,} of its messages are no changes, the last of them at "
                f"{skipped.offset}: {skipped.reason}"
            )

    def append(self, connection: Connection, options: FoldOptions, plan: Plan, start: str) -> None:
        """Append the letters of a fold that continued from `start`."""
        stream = options.dead_letters
        if stream is None or not self._skipped:
            return
        letters = [
            Letter({"stream": plan.stream, "offset": each.offset}, each.reason, each.payload) for each in self._skipped
        ]
        try:
            append_letters(connection, options.server, stream, producer_of(plan, start), letters)
        except TooManyProducers:
            there = connection.stream(stream)
            for letter in letters:
                cut_to_fit([letter], lambda messages: there.append(messages[0]))
        except QuerySuperseded as error:
            raise Overtaken(f"another fold has continued it: {error}") from error
        except (BatchTooLarge, PayloadTooLarge) as error:
            raise Refused(f"its dead letters can't be written: {error}") from error


def producer_of(plan: Plan, start: str) -> Producer:
    """Return the producer of the dead letters of a fold. Each incarnation of a stream has another one."""
    name = hashlib.sha256(plan.stream.encode()).hexdigest()[:32]
    incarnation = plan.incarnation or plan.created_at_ms or 0
    return Producer(f"fold-{name}-{incarnation}", 0 if start == BEGINNING else int(start))


class Changes:
    """The state of one stream while it is folded, and what was left out of it."""

    def __init__(self, *, skip_invalid: bool) -> None:
        self.state = FoldedState()
        self.letters = Letters()
        self._skip_invalid = skip_invalid

    def begin(self, snapshot: Snapshot | None) -> None:
        """Begin with a snapshot, if there is one. Refuse a snapshot that is no state: it belongs to an application."""
        if snapshot is None or not snapshot.data:
            return
        if kind_of(snapshot.content_type) is not Kind.JSON:
            raise Refused(f"its snapshot at {snapshot.offset} is no state of changes: it is {snapshot.content_type}")
        try:
            self.state.restore(snapshot.data)
        except InvalidChange as error:
            raise Refused(f"its snapshot at {snapshot.offset} is no state of changes: {error}") from error

    def take(self, pages: Iterator[Frames]) -> None:
        """Apply pages in their order."""
        for page in pages:
            if not page.trailer:
                raise Refused("it is no stream of JSON, so that it has no changes; a function may fold it")
            messages = decode_messages(page.data[: -page.trailer])

            def refuse(number: int, error: InvalidChange, page: Frames = page) -> None:
                self._refuse(page, number, error)

            self.state.take(messages, refuse)

    def _refuse(self, page: Frames, number: int, error: InvalidChange) -> None:
        start = page.ends[number - 1] if number else page.first
        if not self._skip_invalid:
            raise Refused(f"the message at {offset_of(start)} is no change: {error}") from error
        payload = page.data[start - page.first : page.ends[number] - page.first - page.trailer]
        self.letters.add(Skipped(offset_of(start), str(error), payload))


class Steps:
    """The requests of a fold. Tests override a step, to let something happen before it."""

    def read(self, connection: Connection, plan: Plan, opening: Opening) -> Log:
        """Open the log of a stream, from its snapshot on."""
        return read_log(connection, plan, opening)

    def publish(self, connection: Connection, ready: Sequence[Ready]) -> Iterator[Report]:
        return publish_all(connection, ready)


class FoldTask(metaclass=Arriving):
    """Folds the streams of plans, in a task."""

    def __init__(self, options: FoldOptions, function: Function | None = None) -> None:
        """Fold changes, or use a function: the given one, or the one that the options name."""
        self._options = options
        self._function = function
        self.steps = Steps()

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold streams, and report the outcomes."""
        settle_worker()
        name, function = self._options.function, self._function
        if function is None and name is not None:
            function = load_function(name)
        connection = connect(self._options.server, self._options.selection.bucket)
        for reports in StreamFolder(connection, self._options, function, self.steps).fold(parse_plans(batches)):
            if reports:
                yield batch_of(reports)


class Result(Struct, frozen=True):
    """The result of a fold."""

    folded: Folded
    entities: int = 0
    invalid: int = 0


class Pages:
    """The pages of a stream, counted as they are read. An error of reading is kept, as a function may swallow it."""

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


class StreamFolder:
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
        # Letters come before the snapshot that leaves them out: a fold that is repeated recognises them as duplicates.
        changes.letters.append(self._connection, self._options, plan, log.start)
        return Result(Folded(changes.state.format(), JSON), changes.state.count, len(changes.letters))

    def _content_type(self, plan: Plan) -> str:
        """Return the content type of the stream."""
        with explained(plan):
            return plan.content_type or self._connection.head(plan.stream).content_type


def _fold_by(function: Function, log: Log, pages: Pages) -> Result:
    """Fold a stream by a function of the user. An error in it fails only that stream."""
    given: object = None
    try:
        given = function(None if log.snapshot is None else log.snapshot.data, map(messages_of, pages))
    except Exception as error:
        if pages.failure is None:
            raise Refused(f"its function failed: {type(error).__name__}: {error}") from error
    if pages.failure is not None:
        raise pages.failure  # even if the function caught it
    if not pages.ended and next(iter(pages), None) is not None:
        raise Refused("its function gave a snapshot before it had taken all messages")
    return Result(_folded(given))


def _folded(given: object) -> Folded:
    """Refuse the result of a function that can't be a snapshot."""
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
