"""What is refused for being too much."""

from typing import Annotated, Self

from msgspec import Meta, Struct
from msgspec.structs import replace

from everbrook.settings.kinds import Count
from everbrook.settings.sections.storage import StorageMode

# What memory mode holds unless it is told otherwise. A disk has no such bound by itself.
MEMORY_MODE_BYTES = 100 * 1024 * 1024
MEMORY_MODE_STREAM_BYTES = 10 * 1024 * 1024


class LimitSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is refused for being too much."""

    max_memory_bytes: Annotated[
        Count | None,
        Meta(
            description=(
                "Bytes that all streams together may take in memory mode; an append beyond is answered 413. "
                f"Unset: {MEMORY_MODE_BYTES}. The durable modes keep streams on the disk and have no such limit."
            ),
            examples=[MEMORY_MODE_BYTES],
        ),
    ] = None
    max_stream_bytes: Annotated[
        Count | None,
        Meta(
            description=(
                "Bytes of one stream; an append beyond is answered 413. "
                f"Unset: {MEMORY_MODE_STREAM_BYTES} in memory mode, no limit in the durable modes."
            ),
            examples=[MEMORY_MODE_STREAM_BYTES],
        ),
    ] = None
    max_append_bytes: Annotated[Count, Meta(description="Bytes of one request body; a larger one is answered 413.")] = (
        64 * 1024 * 1024
    )
    max_snapshot_bytes: Annotated[Count, Meta(description="Bytes of a snapshot; a larger one is answered 413.")] = (
        128 * 1024 * 1024
    )
    max_header_bytes: Annotated[
        Count, Meta(description="Bytes of a request's line and headers; more is answered 431.")
    ] = 32 * 1024
    max_page_bytes: Annotated[
        Count,
        Meta(description="Bytes of one page of a read: as many whole messages as fit, at least one."),
    ] = 1024 * 1024
    max_connections: Annotated[Count, Meta(description="Connections open at a time.")] = 20_000
    max_producers_per_stream: Annotated[Count, Meta(description="Idempotent producers remembered for one stream.")] = (
        10_000
    )

    def in_mode(self, mode: StorageMode) -> Self:
        """Give the limits that hold in a storage mode. What is unset even then has no limit."""
        if mode.durable:
            return self
        return replace(
            self,
            max_memory_bytes=self.max_memory_bytes or MEMORY_MODE_BYTES,
            max_stream_bytes=self.max_stream_bytes or MEMORY_MODE_STREAM_BYTES,
        )
