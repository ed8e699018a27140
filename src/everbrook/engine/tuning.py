"""Tuning of the engine: sizes and intervals that are not settings. Only tests choose others.

Operators set `Limits` instead. All structs are in one file because some parts import the engine, which takes all of
them as one argument.
"""

from msgspec import Struct

from everbrook.protocol.subscriptions.rules import MAX_WAKE_STREAMS


class StreamsTuning(Struct, frozen=True, kw_only=True):
    """How many streams stay in memory, and how many are scanned at a time."""

    max_resident: int = 20_000
    eviction_slice: int = 64
    population_slice: int = 64
    counting_slice: int = 1024


class CommitTuning(Struct, frozen=True, kw_only=True):
    """When a committer counts as stalled, how often a stalled one is checked, and when an idle journal is sealed."""

    seal_secs: float = 0.05
    """How long after the last group the journal is sealed, if no other group follows."""
    stall_secs: float = 10.0
    """How long changes may wait without any group becoming durable, or being refused."""
    recheck_secs: float = 1.0


class FeedTuning(Struct, frozen=True, kw_only=True):
    """The bounds of one read, and so of one delivery to live readers."""

    batch_bytes: int = 1024 * 1024
    """The largest page that is held in memory as a whole. A larger one is read and sent part by part."""
    part_bytes: int = 256 * 1024
    """Bytes of such a part."""
    batch_messages: int = 1024
    """Messages of a batch of text or bytes, as each becomes an event of its own."""


class ExpiryTuning(Struct, frozen=True, kw_only=True):
    """How many streams expire or are trimmed in one turn of the loop, and when retention policies are applied."""

    slice_streams: int = 64
    slice_retry_secs: float = 1.0
    """How long the pause is after a slice that failed."""
    scan_secs: float = 10.0
    """How long the pause is between two scans of all stored streams."""
    scan_pause_secs: float = 0.0125
    """How long the pause is between two slices of a scan."""
    trim_delay_ms: int = 1_000
    """A policy is applied about once a second to a stream that is being written to."""
    retry_ms: int = 10_000
    """After how long an expiry is tried again that the storage refused for want of room."""


class RecentChangesTuning(Struct, frozen=True, kw_only=True):
    """How many streams are remembered as changed, and how many stale entries their log may have at least."""

    max_streams: int = 200_000
    max_name_bytes: int = 32 * 1024 * 1024
    """How many bytes the names of those streams have."""
    min_log: int = 1_000


class UploadTuning(Struct, frozen=True, kw_only=True):
    """Back-pressure of an upload, and how long it pauses while others write, because their syncs share the disk."""

    max_backlog_bytes: int = 256 * 1024
    pause_secs: float = 0.005


class SubscriptionsTuning(Struct, frozen=True, kw_only=True):
    """How subscriptions are loaded at the start, how they wake workers, are retried and are compacted."""

    load_slice: int = 256
    scan_slice: int = 256
    backfill_slice: int = 64
    """How many streams one step of a backfill compares with the pattern of a new subscription."""
    wakes_at_once: int = 64
    max_wake_streams: int = MAX_WAKE_STREAMS
    max_cached: int = 200_000
    """For how many streams the cache holds the subscriptions that they wake."""
    max_cached_bytes: int = 16 * 1024 * 1024
    """How many bytes the names of those streams have."""
    first_retry_ms: int = 1_000
    last_retry_ms: int = 60_000
    jitter: float = 0.2
    missing_stream_ms: int = 5_000
    """After how long a wake whose wake stream is missing, or a change without room, is tried again."""
    refused_secs: float = 1.0
    """How long all subscriptions wait after a refused change, so that a full disk is not tried again and again."""
    compact_at_bytes: int = 64 * 1024

    @property
    def longest_retry_ms(self) -> int:
        """The longest time before a delivery is tried again: at least until the next second."""
        return max(1_000, round(self.last_retry_ms * (1 + self.jitter)))


class OwnershipTuning(Struct, frozen=True, kw_only=True):
    """How often the engine asks whether its storage still owns the folder of the store."""

    check_secs: float = 3.0


class EngineTuning(Struct, frozen=True, kw_only=True):
    """The tuning of all parts."""

    streams: StreamsTuning = StreamsTuning()
    commit: CommitTuning = CommitTuning()
    feed: FeedTuning = FeedTuning()
    expiry: ExpiryTuning = ExpiryTuning()
    recent_changes: RecentChangesTuning = RecentChangesTuning()
    uploads: UploadTuning = UploadTuning()
    subscriptions: SubscriptionsTuning = SubscriptionsTuning()
    ownership: OwnershipTuning = OwnershipTuning()


DEFAULT_TUNING = EngineTuning()
