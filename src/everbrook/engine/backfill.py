"""Backfill: which streams the pattern of a new subscription links, looked up a slice at a time (§6.2).

Each stream is linked at the tail that it has when its slice is looked at. What is appended from then on is news, also
if that is before the subscription is there.
"""

from everbrook.engine.engine import Engine
from everbrook.protocol.change import Drop, Edit
from everbrook.protocol.subscriptions.config import Config
from everbrook.protocol.subscriptions.decide import backfill
from everbrook.protocol.subscriptions.glob import literal_prefix
from everbrook.protocol.subscriptions.state import Link


class Backfill:
    """The links of one subscription to be. `step` until it says that all streams were looked at, then `finish`."""

    def __init__(self, engine: Engine, root: bytes, config: Config, slice_streams: int) -> None:
        self._engine = engine
        self._root = root
        self._config = config
        self._slice_streams = slice_streams
        self._prefix = root + literal_prefix(config.pattern or "").encode()
        self._go_on_after: bytes | None = b"" if config.pattern else None
        self._links: dict[str, Link] = {}
        self._changed: dict[bytes, None] = {}
        engine.followers.append(self._follow)

    def step(self) -> bool:
        """Look at the next streams, and tell whether those were the last."""
        if self._go_on_after is not None:
            heads, self._go_on_after = self._engine.listing.scan_newest(
                self._prefix, self._go_on_after, self._slice_streams
            )
            self._links |= backfill(self._config, self._root, heads)
        return self._go_on_after is None

    def finish(self) -> dict[str, Link]:
        """Give the links, with those to streams that are not durable yet."""
        if self._config.pattern:
            self._links |= backfill(self._config, self._root, self._engine.listing.arriving(self._prefix))
        return self._links

    def close(self) -> tuple[bytes, ...]:
        """Follow no more. Gives the streams that may have news since they were looked at."""
        if self._follow in self._engine.followers:
            self._engine.followers.remove(self._follow)
        return tuple(self._changed)

    def _follow(self, edit: Edit) -> None:
        """Hear of an edit that is durable now."""
        identity = edit.head.identity
        if not identity.name.startswith(self._prefix):
            return
        if not isinstance(edit, Drop):
            self._changed[identity.name] = None
            return
        path = identity.name[len(self._root) :].decode()
        link = self._links.get(path)
        if link and link.incarnation == identity.incarnation:
            del self._links[path]
