"""Sizes of the acid engine that no setting changes. A test makes them so small that few bytes reach every case."""

from msgspec import Struct

from everbrook.storage.file_blobs import SYNC_BYTES


class AcidTuning(Struct, frozen=True, kw_only=True):
    """How much of what is kept where, and for how long."""

    fold_at_bytes: int = 32 * 1024 * 1024
    """The size at which the journal is folded into LMDB."""
    chunk_bytes: int = 128 * 1024
    """How much of a stream is one value in LMDB."""
    crumb_bytes: int = 16 * 1024
    """A last chunk smaller than this is joined with the next appends, so that a slow stream is not stored in crumbs."""
    max_counts: int = 4096
    """Of how many prefixes the number of names is kept."""
    blob_sync_bytes: int = SYNC_BYTES
    """After how many bytes a blob is synced while it is written."""


DEFAULT_TUNING = AcidTuning()
