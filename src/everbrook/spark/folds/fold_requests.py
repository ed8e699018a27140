"""The requests of a fold: read the last snapshot and every page after it, then publish a new snapshot.

Small streams, of which there may be thousands, are requested over one connection without waiting for each response. An
unexpected response there is requested again the usual way, and that response counts.

A snapshot replaces the one that its fold continued from, or none if there was none (002 §2.2). So two compactors, or a
compactor and an application with its own snapshots, never overwrite each other: the second one gets an error. The
server takes a snapshot as a whole, checked by its digest, or not at all.
"""

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from everbrook.client._sync.snapshots import Snapshots
from everbrook.client.address import part_of
from everbrook.client.errors import StreamRewound
from everbrook.client.models import Snapshot
from everbrook.protocol.errors import (
    IncarnationMismatch,
    InvalidOffset,
    NotFound,
    OffsetGone,
    PayloadTooLarge,
    PreconditionFailed,
    SnapshotBeyondTail,
    SnapshotSuperseded,
    StreamGone,
)
from everbrook.protocol.frames import CONTENT_TYPE as FRAMES, Frames, decode_frames
from everbrook.protocol.retention import format_digest
from everbrook.spark.connection import Connection
from everbrook.spark.folds.plan import Plan
from everbrook.spark.folds.report import Current, Gone, NotPublished, Overtaken, Refused, Report
from everbrook.spark.http_pipeline import OK, Broken, PipelinedConnection, Request, Response, target_of
from everbrook.spark.streams.offsets import BEGINNING, number_of, offset_of

logger = logging.getLogger(__name__)

MANY = 4
"""From so many streams on, requests are pipelined over a connection of their own."""


_NO_CONTENT = 204


class Opening(Struct, frozen=True):
    """The responses for a stream that were requested ahead, if there are any."""

    snapshot: Snapshot | None = None
    page: Frames | None = None


class Log(Struct, frozen=True):
    """A stream as a fold reads it: its last snapshot, and the pages after it."""

    snapshot: Snapshot | None
    start: str
    pages: Iterator[Frames]


def open_all(connection: Connection, plans: Sequence[Plan]) -> Iterator[tuple[Plan, Opening]]:
    """Request streams ahead, and yield them one after the other."""
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


def _pipelined(
    connection: Connection, waiting: deque[Plan], pipeline: PipelinedConnection
) -> Iterator[tuple[Plan, Opening]]:
    """Request streams until the connection breaks."""
    targets = (target for plan in tuple(waiting) for target in _targets(connection, plan))
    responses = pipeline.get(targets, connection.transport.credentials)
    try:
        while waiting:
            plan = waiting[0]
            snapshot = None if plan.snapshot_offset is None else next(responses)
            page = next(responses)
            waiting.popleft()
            yield plan, _opening(plan, snapshot, page)
    except Broken as error:
        logger.info("a pipelined connection broke, so the other streams are requested again: %s", error)


def _targets(connection: Connection, plan: Plan) -> Iterator[str]:
    if plan.snapshot_offset is not None:
        yield target_of(snapshot_url(connection, plan.stream, plan.snapshot_offset), {}).rstrip("?")
    yield connection.frames_target(plan.stream, plan.start, plan.offset)


def snapshot_url(connection: Connection, stream: str, offset: str) -> str:
    return part_of(connection.root.stream(stream) + connection.root.parts, "snapshot", offset)


def _opening(plan: Plan, snapshot: Response | None, page: Response) -> Opening:
    """Take the responses if both are what was requested. Otherwise the stream is requested again."""
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
    """Read a stream from its snapshot up to the offset of the plan."""
    if opening.page is not None:
        return Log(opening.snapshot, plan.start, _pages(connection, plan, plan.start, opening.page))
    with explained(plan):
        snapshot = connection.stream(plan.stream).snapshot()
    if snapshot is not None and snapshot.offset >= plan.offset:
        raise Current
    start = BEGINNING if snapshot is None else snapshot.offset
    return Log(snapshot, start, _pages(connection, plan, start, None))


def _pages(connection: Connection, plan: Plan, start: str, first: Frames | None) -> Iterator[Frames]:
    """Yield the pages of a stream, of which the first may be given, and check that nothing is missing."""
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
    """Translate refusals of the server into outcomes of a fold."""
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


class Ready(Struct, frozen=True):
    """A snapshot that is to be published, and what is reported if it is."""

    plan: Plan
    data: bytes
    content_type: str
    replaces: str | None
    """The entity tag of the snapshot that it continues from."""
    keep_history: bool
    report: Report

    def headers(self) -> dict[str, str]:
        """Return the headers: the content type, the conditions and the digest."""
        condition = {"If-None-Match": "*"} if self.replaces is None else {"If-Match": self.replaces}
        digest = {"Content-Digest": format_digest(sha256(self.data).digest()).decode()}
        history = {"Stream-Snapshot-History": "keep"} if self.keep_history else {}
        created = {"Stream-Created-At-Ms": str(self.plan.created_at_ms)} if self.plan.created_at_ms is not None else {}
        incarnation = {"Stream-Incarnation": self.plan.incarnation} if self.plan.incarnation else {}
        return {"Content-Type": self.content_type, **condition, **created, **incarnation, **digest, **history}


def publish_all(connection: Connection, ready: Sequence[Ready]) -> Iterator[Report]:
    """Publish snapshots, and report what became of each, in their order."""
    answered = 0
    pipeline = connection.pipeline() if len(ready) >= MANY else None
    if pipeline is not None:
        with closing(pipeline):
            requests = [_request(connection, each) for each in ready]
            try:
                for response in pipeline.send(requests, connection.transport.credentials):
                    each = ready[answered]
                    answered += 1
                    yield each.report if response.status == _NO_CONTENT else _publish(connection, each)
            except Broken as error:
                logger.info("a pipelined connection broke, so the other snapshots are published one by one: %s", error)
    for each in ready[answered:]:
        yield _publish(connection, each)


def _request(connection: Connection, ready: Ready) -> Request:
    url = snapshot_url(connection, ready.plan.stream, ready.plan.offset)
    return Request(target_of(url, {}).rstrip("?"), ready.headers(), ready.data)


def _publish(connection: Connection, ready: Ready) -> Report:
    """Publish a snapshot with the general client. It may have been stored by an attempt whose response was lost."""
    try:
        _send(connection, ready)
    except NotPublished as reason:
        return replace(ready.report, outcome=reason.outcome, error=str(reason), state_bytes=0)
    return ready.report


def _send(connection: Connection, ready: Ready) -> None:
    plan = ready.plan
    snapshots = Snapshots(connection.transport, connection.root.stream(plan.stream) + connection.root.parts)
    try:
        with explained(plan):
            snapshots.publish(ready.data, plan.offset, ready.headers())
    except (PreconditionFailed, SnapshotSuperseded) as error:
        if not _is_latest(snapshots, ready):
            raise Overtaken(error.detail) from error
    except SnapshotBeyondTail as error:
        raise Gone(f"{error.detail}: it was created anew") from error
    except PayloadTooLarge as error:
        raise Refused(
            f"its snapshot has {len(ready.data)} bytes, which the server does not take (limits.max_snapshot_bytes): "
            f"{error.detail}"
        ) from error


def _is_latest(snapshots: Snapshots, ready: Ready) -> bool:
    """Return whether the latest snapshot is this one, whose response was lost."""
    try:
        found = snapshots.latest()
    except (NotFound, StreamGone, OffsetGone):
        return False
    return found is not None and (found.offset, found.data) == (ready.plan.offset, ready.data)
