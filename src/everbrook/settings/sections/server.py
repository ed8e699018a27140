"""Where the server listens, and how long it waits."""

from typing import Annotated

from msgspec import Meta, Struct

from everbrook.settings.kinds import Choice, Host, Port, PublicUrl, Root, RootOrNone, Seconds, Size


class TtlRule(Choice):
    """From when on a `Stream-TTL` counts."""

    SLIDING = "sliding"
    FIXED = "fixed"


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
    stream_root: Annotated[
        Root,
        Meta(
            description=(
                "Path under which streams live, as `Location` headers and webhooks tell it. "
                "They are below `/v1/stream/` as well."
            )
        ),
    ] = "/v1/stream/"
    stream_root_alias: Annotated[
        RootOrNone, Meta(description="Another path under which streams are found. Empty: none.")
    ] = "/v1/streams/"
    ttl: Annotated[
        TtlRule,
        Meta(
            description=(
                "From when on `Stream-TTL` counts. `sliding`: from the last read or write, as in today's protocol; "
                "HEAD tells the whole window. `fixed`: from the creation, as in earlier texts; HEAD tells what is "
                "left. A stream keeps the rule by which it was created."
            )
        ),
    ] = TtlRule.SLIDING
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
            description=(
                "How long a request's head may take to arrive, and by how much its body may be later than "
                "`server.min_body_bytes_per_sec` asks; then it is answered 408. `0`: no bound."
            )
        ),
    ] = 30.0
    min_body_bytes_per_sec: Annotated[
        Size,
        Meta(
            description=(
                "Bytes a second at which the body of a request must arrive, after `server.request_timeout_secs` in "
                "which it may be slower. `0`: any progress will do."
            )
        ),
    ] = 500
    slow_reader_timeout_secs: Annotated[
        Seconds,
        Meta(
            description="How long a client may read nothing of a pending response before it is dropped. `0`: no bound."
        ),
    ] = 30.0
    shutdown_grace_secs: Annotated[
        Seconds, Meta(description="How long a stopping server waits for requests that are under way.")
    ] = 10.0
