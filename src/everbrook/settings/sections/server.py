"""How the server is reached, what it sends, and whom it calls: addresses, TLS, HTTP, the web page, webhooks."""

from typing import Annotated

from msgspec import Meta, Struct

from everbrook.settings.kinds import (
    EXPECTED,
    Choice,
    Count,
    Host,
    Origins,
    Port,
    PositiveSeconds,
    PublicUrl,
    Root,
    RootOrNone,
    Seconds,
    Size,
    Switch,
)


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
                "Path of the stream root in `Location` headers and webhooks. Streams can be reached below "
                "`/v1/stream/` as well."
            )
        ),
    ] = "/v1/stream/"
    stream_root_alias: Annotated[
        RootOrNone, Meta(description="Another path below which streams can be reached. Empty: none.")
    ] = "/v1/streams/"
    ttl: Annotated[
        TtlRule,
        Meta(
            description=(
                "What `Stream-TTL` counts from. `sliding`: the last read or write, as in the current protocol; "
                "HEAD returns the whole TTL. `fixed`: the creation, as in earlier texts; HEAD returns the rest. A "
                "stream keeps the rule under which it was created."
            )
        ),
    ] = TtlRule.SLIDING
    long_poll_timeout_secs: Annotated[
        Seconds,
        Meta(description="How long a long-poll waits for data before the response is `204 No Content`."),
    ] = 30.0
    sse_reconnect_interval_secs: Annotated[
        Seconds,
        Meta(
            description=(
                "Duration of an SSE response. After it the client reconnects, which lets a CDN collapse readers "
                "into one. `0`: no bound."
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
                "How long the head of a request may take to arrive, and how far its body may fall behind "
                "`server.min_body_bytes_per_sec`; after that the request is refused with 408. `0`: no bound."
            )
        ),
    ] = 30.0
    min_body_bytes_per_sec: Annotated[
        Size,
        Meta(
            description=(
                "Bytes per second at which the body of a request must arrive, after an allowance of "
                "`server.request_timeout_secs`. `0`: any progress is enough."
            )
        ),
    ] = 500
    slow_reader_timeout_secs: Annotated[
        Seconds,
        Meta(
            description=(
                "How long a client may read nothing of a pending response before its connection is closed. `0`: "
                "no bound."
            )
        ),
    ] = 30.0
    shutdown_grace_secs: Annotated[
        Seconds, Meta(description="How long a stopping server waits for running requests.")
    ] = 10.0


class HttpSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What browsers and compressing clients get."""

    cors_origins: Annotated[
        Origins, Meta(description="Origins whose pages may use the server, separated by commas. `*`: all.")
    ] = "*"
    compression_min_bytes: Annotated[
        Size, Meta(description="Catch-up reads from this size on are compressed when the client accepts it.")
    ] = 1024


PemPath = Annotated[str, Meta(extra={EXPECTED: "the path of a PEM file"})]


class TlsVersion(Choice):
    """Versions of TLS that may be the oldest."""

    TLS_1_2 = "1.2"
    TLS_1_3 = "1.3"


class ClientCertificates(Choice):
    """Whether clients must show certificates."""

    OFF = "off"
    OPTIONAL = "optional"
    REQUIRED = "required"


class TlsSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How connections are encrypted, if the server does that itself. Changed files are read again by themselves."""

    cert_path: Annotated[
        PemPath,
        Meta(
            description=(
                "PEM file of the certificate, followed by intermediate certificates. With `tls.key_path`, the "
                "server speaks `https` only. Empty: it speaks `http` only."
            )
        ),
    ] = ""
    key_path: Annotated[
        PemPath, Meta(description="PEM file of the private key of the certificate, without a passphrase.")
    ] = ""
    min_version: Annotated[TlsVersion, Meta(description="The oldest version of TLS that is accepted.")] = (
        TlsVersion.TLS_1_2
    )
    client_certificates: Annotated[
        ClientCertificates,
        Meta(
            description=(
                "Whether a client presents a certificate of an authority in `tls.client_ca_path`: never, "
                "optionally, or always. Its common name is the identity of the client."
            )
        ),
    ] = ClientCertificates.OFF
    client_ca_path: Annotated[
        PemPath, Meta(description="PEM file of the authorities whose client certificates are accepted.")
    ] = ""
    handshake_timeout_secs: Annotated[
        PositiveSeconds, Meta(description="How long the TLS handshake of a client may take.")
    ] = 10.0

    @property
    def configured(self) -> bool:
        """Whether the server speaks `https`."""
        return bool(self.cert_path)


class UiSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether there is a web page, and what it may show."""

    enabled: Annotated[Switch, Meta(description="Whether the web page is served, at `/ui`.")] = True
    connect_origins: Annotated[
        Origins,
        Meta(
            description=(
                "Other servers whose streams the page may show, separated by commas. Empty: only those of this server."
            )
        ),
    ] = ""


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
        PositiveSeconds, Meta(description="How long connecting to a receiver may take.")
    ] = 5.0
    timeout_secs: Annotated[
        PositiveSeconds, Meta(description="How long a receiver may take to respond before the delivery fails.")
    ] = 30.0
    max_concurrent: Annotated[
        Count,
        Meta(
            description=(
                "Slots for concurrent deliveries. A quarter is reserved for buckets without a running delivery. A "
                "bucket takes one of the others only while it holds fewer than are free, so a bucket alone gets "
                "half of them. The base surface counts as a bucket."
            )
        ),
    ] = 100
    key_overlap_secs: Annotated[
        Count,
        Meta(
            description=(
                "How long the public half of a signing key stays published after a rotation. It must be longer "
                "than receivers accept a signature, and than a delivery may take."
            )
        ),
    ] = 900
