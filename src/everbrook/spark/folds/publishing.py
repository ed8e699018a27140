"""Publishing snapshots: each replaces the one that its fold went on from, or none if there was none (002 §2.2).

So two compactors, or a compactor and an application with snapshots of its own, never overwrite each other: whoever is
second is told. The server takes a snapshot as a whole, checked by its digest, or not at all.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from everbrook.client._sync.snapshots import Snapshots
from everbrook.protocol.errors import (
    NotFound,
    OffsetGone,
    PayloadTooLarge,
    PreconditionFailed,
    SnapshotBeyondTail,
    SnapshotSuperseded,
    StreamGone,
)
from everbrook.protocol.retention import format_digest
from everbrook.spark.connection import Connection
from everbrook.spark.folds.plans import Plan
from everbrook.spark.folds.reading import explained, snapshot_url
from everbrook.spark.folds.reports import Gone, NotPublished, Overtaken, Refused, Report
from everbrook.spark.pipelining import Broken, Put, target_of

logger = logging.getLogger(__name__)

MANY = 4
_NO_CONTENT = 204


class Ready(Struct, frozen=True):
    """A snapshot that is to be published, and what is reported if it is."""

    plan: Plan
    data: bytes
    content_type: str
    replaces: str | None
    """The entity tag of the snapshot that it goes on from."""
    keep_history: bool
    report: Report

    def headers(self) -> dict[str, str]:
        """Give the conditions and the kind of the snapshot."""
        condition = {"If-None-Match": "*"} if self.replaces is None else {"If-Match": self.replaces}
        digest = {"Content-Digest": format_digest(sha256(self.data).digest()).decode()}
        history = {"Stream-Snapshot-History": "keep"} if self.keep_history else {}
        created = {"Stream-Created-At-Ms": str(self.plan.created_at_ms)} if self.plan.created_at_ms is not None else {}
        there = {"Stream-Incarnation": self.plan.incarnation} if self.plan.incarnation else {}
        return {"Content-Type": self.content_type, **condition, **created, **there, **digest, **history}


def publish_all(connection: Connection, ready: Sequence[Ready]) -> Iterator[Report]:
    """Publish snapshots, and report what became of each, in their order."""
    answered = 0
    pipeline = connection.pipeline() if len(ready) >= MANY else None
    if pipeline is not None:
        with closing(pipeline):
            puts = [_put(connection, each) for each in ready]
            try:
                for answer in pipeline.put(puts, connection.transport.credentials):
                    each = ready[answered]
                    answered += 1
                    yield each.report if answer.status == _NO_CONTENT else _publish(connection, each)
            except Broken as error:
                logger.info("the rest of the snapshots is published one by one: %s", error)
    for each in ready[answered:]:
        yield _publish(connection, each)


def _put(connection: Connection, ready: Ready) -> Put:
    url = snapshot_url(connection, ready.plan.stream, ready.plan.offset)
    return Put(target_of(url, {}).rstrip("?"), ready.headers(), ready.data)


def _publish(connection: Connection, ready: Ready) -> Report:
    """Publish a snapshot as usual. It may have been sent before, and be there."""
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
    """Tell whether the snapshot that is there is this one, whose answer was lost."""
    try:
        found = snapshots.latest()
    except (NotFound, StreamGone, OffsetGone):
        return False
    return found is not None and (found.offset, found.data) == (ready.plan.offset, ready.data)
