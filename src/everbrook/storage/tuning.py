"""Tuning of the durable storage: sizes that are not settings. Tests choose small ones to reach every case."""

from msgspec import Struct

from everbrook.storage.file_blobs import SYNC_BYTES
from everbrook.storage.journal import JournalTuning


class StorageTuning(Struct, frozen=True, kw_only=True):
    """The sizes at which checkpoints are made, streams are cut into chunks and segments, and blobs are synced."""

    checkpoint_bytes: int = 16 * 1024 * 1024
    """The size of the journal at which a checkpoint takes it into the base."""
    max_recent_checkpoints: int = 4
    """How many times that size the journal may have. Beyond it changes wait, and are refused if checkpoints fail."""
    chunk_bytes: int = 128 * 1024
    """The size of a chunk."""
    small_chunk_bytes: int = 16 * 1024
    """A last chunk smaller than this is joined with the next appends, so that a slow stream has no tiny chunks."""
    segment_bytes: int = 8 * 1024 * 1024
    """The size at which the next segment of a stream begins."""
    max_open_segments: int = 64
    """How many segments are kept open to be read."""
    max_counts: int = 4096
    """For how many prefixes the cache holds the number of names."""
    blob_sync_bytes: int = SYNC_BYTES
    """A blob is synced each time so many bytes of it were written."""
    journal: JournalTuning = JournalTuning()


DEFAULT_TUNING = StorageTuning()
