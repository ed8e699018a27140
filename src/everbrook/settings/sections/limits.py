"""What is refused for being too much."""

from typing import Annotated, Self

from msgspec import Meta, Struct
from msgspec.structs import replace

from everbrook.settings.kinds import Count, PositiveSeconds, Seconds, Size
from everbrook.settings.sections.storage import StorageMode

# The default limits of memory mode. The durable modes have none by default: a disk is its own limit.
MEMORY_MODE_BYTES = 100 * 1024 * 1024
MEMORY_MODE_STREAM_BYTES = 10 * 1024 * 1024
# A tenth of all connections, and more than the users behind one address have, unless that is a proxy.
ADDRESS_CONNECTIONS = 2_000


class LimitSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is refused for being too much."""

    max_memory_bytes: Annotated[
        Count | None,
        Meta(
            description=(
                "Bytes of memory that all streams together may take. In memory mode an append beyond is refused with "
                f"413; unset: {MEMORY_MODE_BYTES}. In the durable modes, where streams are on the disk, a half "
                "of it is for loaded streams and their producers, and a quarter for changes that are not in the "
                "base yet; unset: 256 MiB and 64 MiB."
            ),
            examples=[MEMORY_MODE_BYTES],
        ),
    ] = None
    max_bucket_memory_bytes: Annotated[
        Count | None,
        Meta(
            description=(
                "Bytes of memory that the streams of one bucket may take in memory mode, with their snapshots and "
                "producers; an append beyond is refused with 413. Unset: half of `max_memory_bytes`, so that one "
                "bucket can't fill it. The durable modes have no such bound."
            ),
            examples=[MEMORY_MODE_BYTES // 2],
        ),
    ] = None
    max_stream_bytes: Annotated[
        Count | None,
        Meta(
            description=(
                "Bytes of one stream; an append beyond is refused with 413. "
                f"Unset: {MEMORY_MODE_STREAM_BYTES} in memory mode, no limit in the durable modes."
            ),
            examples=[MEMORY_MODE_STREAM_BYTES],
        ),
    ] = None
    max_total_bytes: Annotated[
        Count | None,
        Meta(
            description=(
                "Bytes that all streams and snapshots together may hold, in every mode; a request that would "
                "exceed them is refused with 413. Bytes count as they were sent. Unset: no limit, and nothing is "
                "counted."
            ),
            examples=[1024 * 1024 * 1024],
        ),
    ] = None
    max_bucket_bytes: Annotated[
        Size,
        Meta(
            description=(
                "Bytes that the streams, snapshots and subscriptions of a bucket may hold if it has no quota of "
                "its own, in memory mode also its producers; a request beyond is refused with 413. `0`: no limit."
            )
        ),
    ] = 0
    max_bucket_streams: Annotated[
        Size,
        Meta(
            description=(
                "Streams and subscriptions that a bucket may have if it has no quota of its own; one more is "
                "refused with 413. `0`: no limit."
            )
        ),
    ] = 0
    max_append_bytes: Annotated[
        Count, Meta(description="Bytes of one request body; a larger one is refused with 413.")
    ] = 64 * 1024 * 1024
    max_snapshot_bytes: Annotated[Count, Meta(description="Bytes of a snapshot; a larger one is refused with 413.")] = (
        128 * 1024 * 1024
    )
    max_header_bytes: Annotated[
        Count, Meta(description="Bytes of a request's line and headers; more is refused with 431.")
    ] = 32 * 1024
    max_page_bytes: Annotated[
        Count,
        Meta(
            description=(
                "Bytes of one response to a catch-up read: as many whole messages as fit, at least one. A large "
                "response is sent in parts, as the client reads them. The official TypeScript client stops after "
                "the first response with `live: false`. Frames, SSE and long-polls have at most 1 MiB at a time."
            )
        ),
    ] = 16 * 1024 * 1024
    max_buffered_bytes: Annotated[
        Count,
        Meta(
            description=(
                "Bytes of requests and responses that all connections together may buffer: arriving bodies, and "
                "what clients do not read. Beyond it the slowest connections are closed, and further bodies are "
                "refused with 503."
            )
        ),
    ] = 1024 * 1024 * 1024
    max_connections: Annotated[Count, Meta(description="Connections open at a time.")] = 20_000
    max_connections_per_address: Annotated[
        Size | None,
        Meta(
            description=(
                "Connections open at a time from one address; one more is refused with 429. Those of trusted proxies "
                f"are not counted. Unset: {ADDRESS_CONNECTIONS}, and no limit for loopback addresses. `0`: no limit."
            ),
            examples=[ADDRESS_CONNECTIONS],
        ),
    ] = None
    max_connections_per_identity: Annotated[
        Size,
        Meta(
            description=(
                "Connections of one identity at a time; one more is refused with 429. Those of trusted proxies are not "
                "counted. `0`: no limit."
            )
        ),
    ] = 0
    max_readers_per_address: Annotated[
        Size,
        Meta(
            description=(
                "Live reads (SSE, long-poll) at a time from one address; one more is refused with 429. `0`: no limit."
            )
        ),
    ] = 0
    max_readers_per_identity: Annotated[
        Size, Meta(description="Live reads of one identity at a time; one more is refused with 429. `0`: no limit.")
    ] = 0
    max_readers_per_bucket: Annotated[
        Size,
        Meta(
            description=(
                "Live reads of the streams of one bucket, or of the base surface, at a time; one more is refused with "
                "429. `0`: no limit."
            )
        ),
    ] = 0
    requests_per_sec_per_address: Annotated[
        Size, Meta(description="Requests a second from one address; more are refused with 429. `0`: no limit.")
    ] = 0
    requests_per_sec_per_identity: Annotated[
        Size, Meta(description="Requests a second of one identity; more are refused with 429. `0`: no limit.")
    ] = 0
    append_bytes_per_sec_per_address: Annotated[
        Size,
        Meta(
            description=(
                "Bytes a second that one address may append, or publish as snapshots; more is refused with 429. "
                "`0`: no limit."
            )
        ),
    ] = 0
    append_bytes_per_sec_per_identity: Annotated[
        Size,
        Meta(
            description=(
                "Bytes a second that one identity may append, or publish as snapshots; more is refused with 429. "
                "`0`: no limit."
            )
        ),
    ] = 0
    burst_secs: Annotated[
        PositiveSeconds,
        Meta(description="A client that was idle may send this many seconds' worth of a rate at once."),
    ] = 10.0
    overload_wait_secs: Annotated[
        Seconds,
        Meta(
            description=(
                "How long requests may wait for their turn. While they wait longer, some are refused with 503. `0`: "
                "no bound."
            )
        ),
    ] = 0.25
    overload_commit_secs: Annotated[
        Seconds,
        Meta(
            description=(
                "How long a change may take to become durable. While one takes longer, some requests are refused with "
                "503. `0`: no bound."
            )
        ),
    ] = 0.25
    max_producers_per_stream: Annotated[Count, Meta(description="Idempotent producers remembered for one stream.")] = (
        10_000
    )
    max_fork_depth: Annotated[
        Count,
        Meta(
            description=(
                "Streams before a fork in its chain: a fork of a fork has two. A deeper fork is refused with 409; "
                "existing ones stay readable."
            )
        ),
    ] = 64

    max_subscriptions: Annotated[
        Count,
        Meta(description="Subscriptions of one bucket, or of the base surface; one more is refused with 413."),
    ] = 10_000
    max_wake_stream_bytes: Annotated[
        Count,
        Meta(
            description=(
                "Bytes of a wake stream beyond which no wake is appended to it; its subscriptions then report a "
                "problem. The limits of streams and buckets do not stop wakes."
            )
        ),
    ] = 64 * 1024 * 1024

    def in_mode(self, mode: StorageMode) -> Self:
        """Return the limits that hold in a storage mode. What is unset even then has no limit."""
        if mode.durable:
            return replace(self, max_bucket_memory_bytes=None)
        max_memory_bytes = self.max_memory_bytes or MEMORY_MODE_BYTES
        return replace(
            self,
            max_memory_bytes=max_memory_bytes,
            max_bucket_memory_bytes=self.max_bucket_memory_bytes or max(1, max_memory_bytes // 2),
            max_stream_bytes=self.max_stream_bytes or MEMORY_MODE_STREAM_BYTES,
        )
