"""Every setting: its name, type, bounds, default and meaning, each written once.

A setting ``section.key`` is ``DS_SECTION__KEY`` in the environment. ``config/default.toml`` and the reference
page repeat these defaults for people to read, and tests hold them to this file.
"""

from enum import StrEnum
from sys import float_info
from typing import Annotated, Self

from msgspec import Meta, Struct
from msgspec.structs import replace

# What a value must be, in the words of an error message, where the type does not say it.
EXPECTED = "expected"

Host = Annotated[str, Meta(extra={EXPECTED: "an address or a host name"})]
PublicUrl = Annotated[
    str, Meta(extra={EXPECTED: "an http or https URL without credentials, query, fragment or trailing slash"})
]
Origins = Annotated[
    str, Meta(extra={EXPECTED: "'*' or origins such as 'https://app.example.com', separated by commas"})
]
Folder = Annotated[str, Meta(extra={EXPECTED: "the path of a folder"})]
Filter = Annotated[str, Meta(extra={EXPECTED: "a log filter such as 'warn,everbrook.engine=debug'"})]
Switch = Annotated[bool, Meta(extra={EXPECTED: "true or false"})]
Port = Annotated[int, Meta(ge=0, le=65535)]
Count = Annotated[int, Meta(ge=1)]
Size = Annotated[int, Meta(ge=0)]
ShardCount = Annotated[int, Meta(ge=1, le=256, extra={EXPECTED: "a power of two from 1 to 256"})]
Seconds = Annotated[float, Meta(ge=0, le=float_info.max)]
PositiveSeconds = Annotated[float, Meta(gt=0, le=float_info.max)]


# What memory mode holds unless it is told otherwise. A disk has no such bound by itself.
MEMORY_MODE_BYTES = 100 * 1024 * 1024
MEMORY_MODE_STREAM_BYTES = 10 * 1024 * 1024


class Choice(StrEnum):
    """A closed set of words, read in any case."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        word = str(value).lower()
        return next((member for member in cls if member.value == word), None)


class StorageMode(Choice):
    """Where streams are kept."""

    MEMORY = "memory"
    FILE_FAST = "file-fast"
    FILE_DURABLE = "file-durable"
    ACID = "acid"

    @property
    def durable(self) -> bool:
        """Whether streams outlive the process."""
        return self is not StorageMode.MEMORY

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        # What the Rust server calls the mode with this promise, after its database.
        return super()._missing_("acid" if str(value).lower() == "redb" else value)


class LogLevel(Choice):
    """How much is logged, from nothing to everything."""

    OFF = "off"
    ERROR = "error"
    WARN = "warn"
    INFO = "info"
    DEBUG = "debug"
    TRACE = "trace"

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        # Python's own name for the level; people will type it.
        return super()._missing_("warn" if str(value).lower() == "warning" else value)


class LogFormat(Choice):
    """How a log record is written."""

    TEXT = "text"
    JSON = "json"


class ServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the server listens, and how long it waits."""

    host: Annotated[Host, Meta(description="Address to listen on; `0.0.0.0` or `::` for all.")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="TCP port to listen on; `0` lets the system choose one.")] = 4437
    public_url: Annotated[
        PublicUrl,
        Meta(
            description=(
                "URL by which clients reach the server, for `Location` headers. "
                "Empty: the scheme and host of the request."
            )
        ),
    ] = ""
    long_poll_timeout_secs: Annotated[
        Seconds,
        Meta(description="How long a long-poll waits for data before it is answered `204 No Content`."),
    ] = 30.0
    sse_reconnect_interval_secs: Annotated[
        Seconds,
        Meta(
            description=(
                "After how long an SSE response ends so that the client reconnects, "
                "which lets a CDN collapse readers into one. `0`: never."
            )
        ),
    ] = 60.0
    sse_keepalive_secs: Annotated[
        Seconds,
        Meta(
            description="How long an SSE response may be silent before a comment is sent to keep it open. `0`: never."
        ),
    ] = 15.0
    idle_timeout_secs: Annotated[
        Seconds, Meta(description="How long a connection may stay open without a request. `0`: no bound.")
    ] = 75.0
    request_timeout_secs: Annotated[
        Seconds,
        Meta(
            description="How long a request's head may take to arrive, and its body to make no progress. `0`: no bound."
        ),
    ] = 30.0
    slow_reader_timeout_secs: Annotated[
        Seconds,
        Meta(
            description="How long a client may read nothing of a pending response before it is dropped. `0`: no bound."
        ),
    ] = 30.0
    shutdown_grace_secs: Annotated[
        Seconds, Meta(description="How long a stopping server waits for requests that are under way.")
    ] = 10.0


class HttpSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What browsers and compressing clients get."""

    cors_origins: Annotated[
        Origins, Meta(description="Origins whose pages may use the server, separated by commas. `*`: all.")
    ] = "*"
    compression_min_bytes: Annotated[
        Size, Meta(description="Catch-up reads from this size on are compressed when the client accepts it.")
    ] = 4096


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


class WebhookSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How subscriptions call their receivers."""

    allow_loopback_http: Annotated[
        Switch,
        Meta(
            description=(
                "Whether webhooks may go to `http://localhost` and loopback addresses, for development. "
                "Everything else must be `https` and public."
            )
        ),
    ] = False
    connect_timeout_secs: Annotated[
        PositiveSeconds, Meta(description="How long a connection to a receiver may take to come about.")
    ] = 5.0
    timeout_secs: Annotated[
        PositiveSeconds, Meta(description="How long a receiver may take to answer before the delivery has failed.")
    ] = 30.0
    max_concurrent: Annotated[Count, Meta(description="Deliveries that are under way at a time.")] = 100
    key_overlap_secs: Annotated[
        Count,
        Meta(
            description=(
                "How long the public half of a signing key stays published after a rotation: "
                "longer than receivers accept a signature, and than a delivery may take."
            )
        ),
    ] = 900


class StorageSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where streams are kept."""

    mode: Annotated[
        StorageMode,
        Meta(
            description=(
                "What an acknowledged append survives. `memory`: nothing, streams are gone with the process. "
                "`file-fast`: the end of the process. `file-durable`: the end of the machine. "
                "`acid`, also called `redb`: the end of the machine, each change entirely or not at all."
            )
        ),
    ] = StorageMode.ACID
    data_dir: Annotated[
        Folder,
        Meta(description="Where the durable modes keep streams. Made if missing; one server at a time uses it."),
    ] = "./data/streams"
    acid_shard_count: Annotated[
        ShardCount,
        Meta(
            description=(
                "Over how many LMDB environments mode `acid` spreads what it takes out of its journal. "
                "One journal takes the writes of all of them, so more shards buy nothing until LMDB itself is the "
                "limit. Fixed when the store is made."
            )
        ),
    ] = 1


class LogSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is logged, and how."""

    level: Annotated[LogLevel, Meta(description="How much is logged where no log filter wins.")] = LogLevel.INFO
    rust_log: Annotated[Filter, Meta(description="Levels by logger; wins over a `log.level` of the same place.")] = (
        "info"
    )
    format: Annotated[LogFormat, Meta(description="`text` for people, `json` for machines: one object a line.")] = (
        LogFormat.TEXT
    )


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings; ``Settings()`` holds the defaults."""

    server: ServerSettings = ServerSettings()
    http: HttpSettings = HttpSettings()
    limits: LimitSettings = LimitSettings()
    webhooks: WebhookSettings = WebhookSettings()
    storage: StorageSettings = StorageSettings()
    log: LogSettings = LogSettings()
