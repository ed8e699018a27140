"""Subscriptions: durable cursors that wake workers when streams have news (§6, §7)."""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from everbrook.protocol.subscriptions.config import Config as Config
    from everbrook.protocol.subscriptions.rules import is_linked as is_linked
    from everbrook.protocol.subscriptions.subscription import (
        BEFORE_FIRST as BEFORE_FIRST,
        Compact as Compact,
        Ended as Ended,
        Event as Event,
        Held as Held,
        Link as Link,
        Subscription as Subscription,
        Wake as Wake,
        decode_events as decode_events,
        fold as fold,
    )

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        ".config": "Config",
        ".rules": "is_linked",
        ".subscription": ("BEFORE_FIRST Compact Ended Event Held Link Subscription Wake decode_events fold"),
    },
)
