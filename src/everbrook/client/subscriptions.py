"""What a subscription is told to be, and what it tells of itself (§6.2, §6.3)."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct


class SubscriptionInfo(Struct, frozen=True):
    """A subscription, as the server describes it. `streams` have their paths and acked offsets.

    `problem` says by a code and a message why it can wake nobody, while it can't.
    """

    id: str
    type: str
    pattern: str | None = None
    streams: list[dict[str, Any]] = []
    webhook: dict[str, Any] | None = None
    wake_stream: str | None = None
    lease_ttl_ms: int = 0
    description: str | None = None
    status: str = ""
    created_at: str = ""
    problem: dict[str, Any] | None = None


def subscription_body(
    pattern: str | None,
    streams: Iterable[str],
    webhook: str | None,
    wake_stream: str | None,
    lease_ttl_ms: int | None,
    description: str | None,
) -> bytes:
    """Write the body of a request that creates a subscription."""
    if (webhook is None) == (wake_stream is None):
        raise ValueError("a subscription has either a webhook or a wake_stream")
    given = {
        "type": "webhook" if webhook else "pull-wake",
        "pattern": pattern,
        "streams": list(streams) or None,
        "webhook": {"url": webhook} if webhook else None,
        "wake_stream": wake_stream,
        "lease_ttl_ms": lease_ttl_ms,
        "description": description,
    }
    return msgspec.json.encode({name: value for name, value in given.items() if value is not None})
