"""Tuning of the file storage: sizes that are not settings. Tests choose small ones to reach every case."""

from msgspec import Struct

from everbrook.storage.file_blobs import SYNC_BYTES


class FilesTuning(Struct, frozen=True, kw_only=True):
    """How large files grow, and how much of them stays in memory."""

    segment_bytes: int = 1024 * 1024
    """The size at which a log begins a new segment."""
    hot_bytes: int = 64 * 1024 * 1024
    """Memory for the logs of streams that were read lately."""
    older_bytes: int = 32 * 1024 * 1024
    """Memory for the indexes of segments before the last one."""
    pens_bytes: int = 32 * 1024 * 1024
    """Memory for the ends of logs that were written to lately."""
    open_files: int = 64
    """How many logs are open for writing at once."""
    renew_at_bytes: int = 4 * 1024 * 1024
    """By how much the catalogue grows at least before it is rewritten."""
    blob_sync_bytes: int = SYNC_BYTES
    """A blob is synced each time so many bytes of it were written."""


DEFAULT_TUNING = FilesTuning()
