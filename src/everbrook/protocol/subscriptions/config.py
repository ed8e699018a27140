"""The configuration of a subscription: the request in a normal form, which is compared by its hash (§6.2)."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Literal

import msgspec
from msgspec import Struct

from everbrook.protocol.errors import InvalidRequest, ProtocolError
from everbrook.protocol.path import REGISTRY, parse_stream_path

DEFAULT_LEASE_TTL_MS = 30_000
MIN_LEASE_TTL_MS = 1_000
MAX_LEASE_TTL_MS = 600_000
MAX_ID_BYTES = 200
MAX_STREAMS = 10_000
MAX_PATTERN_CHARACTERS = 400
MAX_DESCRIPTION_CHARACTERS = 1000

Kind = Literal["webhook", "pull-wake"]


class Webhook(Struct):
    """The receiver of wakes."""

    url: str


class Request(Struct):
    """The body of a request that creates a subscription."""

    type: Kind
    pattern: str | None = None
    streams: list[str] = []
    webhook: Webhook | None = None
    wake_stream: str | None = None
    lease_ttl_ms: int = DEFAULT_LEASE_TTL_MS
    description: str | None = None


class Config(Struct, frozen=True):
    """The immutable part of a subscription. Streams that are linked later are not in it."""

    type: Kind
    pattern: str | None = None
    streams: tuple[str, ...] = ()
    webhook_url: str | None = None
    wake_stream: str | None = None
    lease_ttl_ms: int = DEFAULT_LEASE_TTL_MS
    description: str | None = None

    @property
    def digest(self) -> bytes:
        """The hash by which configurations are compared."""
        return sha256(msgspec.json.encode(self)).digest()


_request = msgspec.json.Decoder(Request)


def parse_config(body: bytes, root: bytes) -> Config:
    """Parse the body of a request that creates a subscription under a stream root."""
    try:
        request = _request.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"the body must describe a subscription: {error}") from None
    pattern = parse_pattern(request.pattern) if request.pattern else None
    streams = parse_paths(request.streams, root)
    if pattern is None and not streams:
        raise InvalidRequest("at least one of pattern and streams is needed")
    if not MIN_LEASE_TTL_MS <= request.lease_ttl_ms <= MAX_LEASE_TTL_MS:
        raise InvalidRequest(
            f"lease_ttl_ms must be from {MIN_LEASE_TTL_MS} to {MAX_LEASE_TTL_MS}, got {request.lease_ttl_ms}"
        )
    if len(request.description or "") > MAX_DESCRIPTION_CHARACTERS:
        raise InvalidRequest(f"description holds at most {MAX_DESCRIPTION_CHARACTERS} characters")
    wake_stream = _wake_stream(request, root)
    require_others(streams, wake_stream)
    return Config(
        request.type,
        pattern,
        tuple(sorted(set(streams))),
        _webhook_url(request),
        wake_stream,
        request.lease_ttl_ms,
        request.description,
    )


def _webhook_url(request: Request) -> str | None:
    if request.type != "webhook":
        return None
    if request.webhook is None or not request.webhook.url:
        raise InvalidRequest("a webhook subscription needs webhook.url")
    return request.webhook.url


def _wake_stream(request: Request, root: bytes) -> str | None:
    if request.type != "pull-wake":
        return None
    if not request.wake_stream:
        raise InvalidRequest("a pull-wake subscription needs wake_stream")
    wake_stream = parse_path(request.wake_stream, root)
    if root + wake_stream.encode() == REGISTRY:
        raise InvalidRequest(f"wake_stream must be a stream that can be written to, got {wake_stream!r}")
    return wake_stream


def require_others(streams: Iterable[str], wake_stream: str | None) -> None:
    """Refuse to link a wake stream to its own subscription: each wake would be news for itself."""
    if wake_stream is not None and wake_stream in streams:
        raise InvalidRequest(f"{wake_stream!r} is the wake stream; it can't be one of the streams that wake")


def parse_pattern(pattern: str) -> str:
    """Parse a glob, and remove the slashes around it (§6.2)."""
    normal = pattern.strip("/")
    if not normal or len(normal) > MAX_PATTERN_CHARACTERS or "" in normal.split("/"):
        raise InvalidRequest(
            f"pattern must be segments joined by slashes, at most {MAX_PATTERN_CHARACTERS} characters, "
            f"got {pattern[:64]!r}"
        )
    return normal


def parse_paths(paths: list[str], root: bytes) -> list[str]:
    """Parse stream paths that are relative to a stream root (§6)."""
    if len(paths) > MAX_STREAMS:
        raise InvalidRequest(f"at most {MAX_STREAMS} streams at once, got {len(paths)}")
    return [parse_path(path, root) for path in paths]


def parse_path(path: str, root: bytes) -> str:
    """Parse a stream path that is relative to a stream root (§6)."""
    normal = path.strip("/")
    try:
        # A percent sign stands for itself here: this is a path and not a URL.
        parse_stream_path(root + normal.replace("%", "%25").encode())
    except (ProtocolError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"{path[:64]!r} is not a stream path: {error}") from None
    return normal


def parse_subscription_id(subscription_id: bytes) -> str:
    """Parse the id of a subscription, which its creator has chosen (§6.1)."""
    try:
        text = subscription_id.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("a subscription id must be UTF-8") from None
    if not 0 < len(subscription_id) <= MAX_ID_BYTES or "/" in text or not text.isprintable():
        raise InvalidRequest(f"a subscription id is 1 to {MAX_ID_BYTES} bytes without slashes, got {text[:64]!r}")
    return text
