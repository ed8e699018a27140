"""Tuning of the acid storage: sizes that are not settings. Tests choose small ones to reach every case."""

from msgspec import Struct

from everbrook.storage.file_blobs import SYNC_BYTES


class AcidTuning(Struct, frozen=True, kw_only=True):
    """The sizes at which the journal is folded, streams are cut into chunks, and blobs are synced."""

    fold_at_bytes: int = 32 * 1024 * 1024
    """The size at which the journal is folded into LMDB."""
    chunk_bytes: int = 128 * 1024
    """The size of a chunk, which is one value in LMDB."""
    small_chunk_bytes: int = 16 * 1024
    """A last chunk smaller than this is joined with the next appends, so that a slow stream has no tiny chunks."""
    max_counts: int = 4096
    """For how many prefixes the cache holds the number of names."""
    blob_sync_bytes: int = SYNC_BYTES
    """A blob is synced each time so many bytes of it were written."""


DEFAULT_TUNING = AcidTuning()
