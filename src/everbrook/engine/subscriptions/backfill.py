"""Backfill: finds the streams that the pattern of a new subscription links, a slice at a time (§6.2).

Each stream is linked at the tail that it has when its slice is read. Messages that are appended from then on are news,
even if they are appended before the subscription exists.
"""

from everbrook.engine.engine import Engine
from everbrook.protocol.state import Drop, Edit
from everbrook.protocol.subscriptions.config import Config
from everbrook.protocol.subscriptions.pattern import literal_prefix
from everbrook.protocol.subscriptions.rules import backfill
from everbrook.protocol.subscriptions.subscription import Link


class Backfill:
    """Collects the links of a subscription that will be created. Call `step` until it returns True, then `finish`."""

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
        """Read the next slice of streams. Returns whether it was the last one."""
        if self._go_on_after is not None:
            heads, self._go_on_after = self._engine.listing.scan_newest(
                self._prefix, self._go_on_after, self._slice_streams
            )
            self._links |= backfill(self._config, self._root, heads)
        return self._go_on_after is None

    def finish(self) -> dict[str, Link]:
        """Return the links, including those to streams whose creation is pending."""
        if self._config.pattern:
            self._links |= backfill(self._config, self._root, self._engine.listing.arriving(self._prefix))
        return self._links

    def close(self) -> tuple[bytes, ...]:
        """Stop following changes. Returns the streams that may have news since their slice was read."""
        if self._follow in self._engine.followers:
            self._engine.followers.remove(self._follow)
        return tuple(self._changed)

    def _follow(self, edit: Edit) -> None:
        """Note a stream that changed, and remove the link to one that was dropped."""
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
