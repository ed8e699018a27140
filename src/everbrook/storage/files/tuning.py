"""Sizes of the file engine that no setting changes. A test makes them so small that few bytes reach every case."""

from msgspec import Struct

from everbrook.storage.file_blobs import SYNC_BYTES


class FilesTuning(Struct, frozen=True, kw_only=True):
    """How large files grow, and how much of them is held in memory."""

    segment_bytes: int = 1024 * 1024
    """The size at which a log goes on in a new segment."""
    hot_bytes: int = 64 * 1024 * 1024
    """Memory for the logs of streams that were read lately."""
    older_bytes: int = 32 * 1024 * 1024
    """Memory for the indexes of segments before the last one."""
    pens_bytes: int = 32 * 1024 * 1024
    """Memory for the ends of logs that were written to lately."""
    open_files: int = 64
    """How many logs are open for writing at once."""
    renew_at_bytes: int = 4 * 1024 * 1024
    """How much the catalogue grows at least before it is begun anew."""
    blob_sync_bytes: int = SYNC_BYTES
    """After how many bytes a blob is synced while it is written."""


DEFAULT_TUNING = FilesTuning()
