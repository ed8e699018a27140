"""Refusals about snapshots, and about cutting what none covers."""

from everbrook.protocol.errors.families import Conflict, NotFound


class SnapshotNotFound(NotFound):
    """The stream has no such snapshot, or none any more (002 §2.5)."""

    code = "snapshot_not_found"


class SnapshotBeyondTail(Conflict):
    """A snapshot would cover what the stream does not have (002 §2.2)."""

    code = "snapshot_beyond_tail"


class SnapshotSuperseded(Conflict):
    """A snapshot of a later offset is there."""

    code = "snapshot_superseded"


class SnapshotNeeded(Conflict):
    """Without the snapshot a bootstrap would be incomplete (002 §2.6)."""

    code = "snapshot_needed"


class SnapshotBeyondFork(Conflict):
    """The source's snapshot covers more than the fork would have, and what it covers is not there by itself."""

    code = "snapshot_beyond_fork"


class RetentionBeyondSnapshot(Conflict):
    """What would be cut is covered by no snapshot (002 §3.4)."""

    code = "retention_beyond_snapshot"
