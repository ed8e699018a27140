"""Tuning of the durable storage: sizes that are not settings. Tests choose small sizes to reach every case."""

from msgspec import Struct

from everbrook.storage.file_blobs import SYNC_BYTES
from everbrook.storage.journal import JournalTuning


class StorageTuning(Struct, frozen=True, kw_only=True):
    """The sizes at which checkpoints are made, streams are cut into chunks and segments, and blobs are synced."""

    checkpoint_bytes: int = 16 * 1024 * 1024
    """The size of the journal at which a checkpoint takes its changes into the base."""
    max_recent_checkpoints: int = 4
    """The bound of the journal, a multiple of that size. Beyond it changes wait, or are refused if checkpoints fail."""
    max_prepared_bytes: int = 256 * 1024
    """The size of the largest group that is framed in the thread of the event loop."""
    chunk_bytes: int = 128 * 1024
    """The size of a chunk."""
    small_chunk_bytes: int = 16 * 1024
    """A last chunk smaller than this is joined with the next appends, so that a slow stream has no tiny chunks."""
    segment_bytes: int = 8 * 1024 * 1024
    """The size at which the next segment of a stream begins."""
    max_open_segments: int = 64
    """How many segments are kept open for reads."""
    work_secs: float = 0.001
    """How long a checkpoint works before it pauses, because other threads wait for the interpreter's lock."""
    rest_ratio: float = 2.0
    """The length of a pause, as a multiple of the work before it."""
    max_rest_secs: float = 0.02
    max_counts: int = 4096
    """The number of prefixes in the cache of counts of names."""
    blob_sync_bytes: int = SYNC_BYTES
    """The number of bytes of a blob that are written between two syncs."""
    journal: JournalTuning = JournalTuning()


DEFAULT_TUNING = StorageTuning()
