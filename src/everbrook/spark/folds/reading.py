"""Reading what is folded: the last snapshot and every page behind it, of many streams one after the other.

Small streams, of which there may be thousands, are asked for over one connection without waiting for each other. What
is not answered as expected there is asked for again as usual, and that answer counts.
"""

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from msgspec import Struct

from everbrook.client.address import part_of
from everbrook.client.errors import StreamRewound
from everbrook.client.models import Snapshot
from everbrook.protocol.errors import IncarnationMismatch, InvalidOffset, NotFound, OffsetGone, StreamGone
from everbrook.protocol.frames import CONTENT_TYPE as FRAMES, Frames, decode_frames
from everbrook.spark.connection import Connection
from everbrook.spark.folds.plans import Plan
from everbrook.spark.folds.reports import Current, Gone, Overtaken
from everbrook.spark.pipelining import OK, Answer, Broken, Pipeline, target_of
from everbrook.spark.positions import BEGINNING, number_of, offset_of

logger = logging.getLogger(__name__)

MANY = 4
"""From so many streams on they are asked for over a connection of their own."""


class Opening(Struct, frozen=True):
    """What was answered about a stream before it was needed, if anything was."""

    snapshot: Snapshot | None = None
    page: Frames | None = None


class Log(Struct, frozen=True):
    """A stream as a fold reads it: its last snapshot, and the pages behind that."""

    snapshot: Snapshot | None
    start: str
    pages: Iterator[Frames]


def open_all(connection: Connection, plans: Sequence[Plan]) -> Iterator[tuple[Plan, Opening]]:
    """Ask for streams, and give them one after the other."""
    waiting = deque(plans)
    while len(waiting) >= MANY:
        before, pipeline = len(waiting), connection.pipeline()
        if pipeline is None:
            break
        with closing(pipeline):
            yield from _pipelined(connection, waiting, pipeline)
        if len(waiting) == before:
            break
    for plan in waiting:
        yield plan, Opening()


def _pipelined(connection: Connection, waiting: deque[Plan], pipeline: Pipeline) -> Iterator[tuple[Plan, Opening]]:
    """Ask for as many as the connection holds for."""
    targets = (target for plan in tuple(waiting) for target in _targets(connection, plan))
    answers = pipeline.get(targets, connection.transport.credentials)
    try:
        while waiting:
            plan = waiting[0]
            snapshot = None if plan.snapshot_offset is None else next(answers)
            page = next(answers)
            waiting.popleft()
            yield plan, _opening(plan, snapshot, page)
    except Broken as error:
        logger.info("the rest of the streams is asked for anew: %s", error)


def _targets(connection: Connection, plan: Plan) -> Iterator[str]:
    if plan.snapshot_offset is not None:
        yield target_of(snapshot_url(connection, plan.stream, plan.snapshot_offset), {}).rstrip("?")
    yield connection.frames_target(plan.stream, plan.start, plan.offset)


def snapshot_url(connection: Connection, stream: str, offset: str) -> str:
    """Give the URL of a snapshot."""
    return part_of(connection.root.stream(stream) + connection.root.parts, "snapshot", offset)


def _opening(plan: Plan, snapshot: Answer | None, page: Answer) -> Opening:
    """Take answers, if both are what was asked for."""
    if page.status != OK or page.headers.get(b"content-type") != FRAMES or not page.is_of(plan.incarnation):
        return Opening()
    if snapshot is None:
        return Opening(None, decode_frames(page.body))
    if snapshot.status != OK or b"etag" not in snapshot.headers:
        return Opening()
    found = Snapshot(
        plan.snapshot_offset or "",
        snapshot.body,
        snapshot.headers.get(b"content-type", b"").decode(),
        snapshot.headers[b"etag"].decode(),
    )
    return Opening(found, decode_frames(page.body))


def read_log(connection: Connection, plan: Plan, opening: Opening) -> Log:
    """Read a stream up to where it is folded."""
    if opening.page is not None:
        return Log(opening.snapshot, plan.start, _pages(connection, plan, plan.start, opening.page))
    with explained(plan):
        snapshot = connection.stream(plan.stream).snapshot()
    if snapshot is not None and snapshot.offset >= plan.offset:
        raise Current
    start = BEGINNING if snapshot is None else snapshot.offset
    return Log(snapshot, start, _pages(connection, plan, start, None))


def _pages(connection: Connection, plan: Plan, start: str, first: Frames | None) -> Iterator[Frames]:
    """Give the pages of a stream, the first of which may be there already, and make sure that nothing is missing."""
    here = start
    if first is not None and len(first):
        yield first
        here = offset_of(first.ends[-1])
    if here < plan.offset:
        with explained(plan):
            for frames in connection.stream(plan.stream).frames(here, until=plan.offset, incarnation=plan.incarnation):
                if here != BEGINNING and frames.first != number_of(here):
                    raise Overtaken(f"what follows {here} was cut while it was read")
                yield frames
                here = offset_of(frames.ends[-1])
    if here != plan.offset:
        raise Gone(f"it ends at {here}, and was to be folded up to {plan.offset}: it was created anew")


@contextmanager
def explained(plan: Plan) -> Iterator[None]:
    """Say what refusals of the server mean for a fold."""
    try:
        yield
    except OffsetGone as error:
        raise Overtaken(error.detail) from error
    except (NotFound, StreamGone, IncarnationMismatch) as error:
        raise Gone(error.detail) from error
    except StreamRewound as error:
        raise Gone(str(error)) from error
    except InvalidOffset as error:
        raise Gone(f"no message ends at {plan.offset} any more: it was created anew") from error
