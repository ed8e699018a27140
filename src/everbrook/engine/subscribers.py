"""Who is woken by which stream: globs and explicit links of all subscriptions, looked up by a stream's name.

What a stream's name matches is remembered until a subscription comes or goes, so that an append costs a look-up.
"""

from collections.abc import Iterable

import msgspec

from everbrook.engine.subscription import Active
from everbrook.engine.usage import Held
from everbrook.protocol.path import BUCKET_ROOT, STREAM_ROOT
from everbrook.protocol.subscriptions.config import Config
from everbrook.protocol.subscriptions.glob import GlobTrie


def split_name(name: bytes) -> tuple[bytes, bytes] | None:
    """Part a stream's name into its stream root and its path below, or None for what is no stream."""
    if name.startswith(STREAM_ROOT):
        return STREAM_ROOT, name[len(STREAM_ROOT) :]
    if name.startswith(BUCKET_ROOT):
        end = name.index(b"/", len(BUCKET_ROOT)) + 1
        return name[:end], name[end:]
    return None


def path_of(name: bytes) -> str:
    """Give the path of a stream below its stream root."""
    parted = split_name(name)
    return parted[1].decode() if parted else ""


def size_of(config: Config, explicit: Iterable[str]) -> int:
    """Give how many bytes a subscription counts for: what it was described by, and the streams that it names."""
    return len(msgspec.json.encode(config)) + sum(len(path.encode()) for path in explicit)


class _Root:
    """The links below one stream root, how many subscriptions they are of, and how many bytes those count for."""

    def __init__(self) -> None:
        self.subscriptions = self.size = 0
        self.globs: GlobTrie[Active] = GlobTrie()
        self.explicit: dict[str, dict[Active, None]] = {}
        self.wake_streams: dict[str, dict[Active, None]] = {}


class Subscribers:
    """All links of all subscriptions."""

    def __init__(self, max_remembered: int, max_remembered_bytes: int) -> None:
        """Remember what so many names match, which have at most so many bytes together."""
        self._max_remembered = max_remembered
        self._max_remembered_bytes = max_remembered_bytes
        self._remembered_bytes = 0
        self._roots: dict[bytes, _Root] = {}
        self._remembered: dict[bytes, tuple[Active, ...]] = {}

    def add(self, active: Active) -> None:
        """Enter the links of a subscription."""
        subscription = active.subscription
        root = self._roots.setdefault(subscription.root.encode(), _Root())
        root.subscriptions += 1
        root.size += size_of(subscription.config, subscription.explicit)
        if subscription.config.pattern:
            root.globs.add(subscription.config.pattern, active)
        for path in subscription.explicit:
            root.explicit.setdefault(path, {})[active] = None
        if subscription.config.wake_stream:
            root.wake_streams.setdefault(subscription.config.wake_stream, {})[active] = None
        self._forget()

    def remove(self, active: Active) -> None:
        """Take the links of a subscription out."""
        subscription = active.subscription
        root = self._roots[subscription.root.encode()]
        root.subscriptions -= 1
        root.size -= size_of(subscription.config, subscription.explicit)
        if subscription.config.pattern:
            root.globs.remove(subscription.config.pattern, active)
        for path in subscription.explicit:
            del root.explicit[path][active]
            if not root.explicit[path]:
                del root.explicit[path]
        if subscription.config.wake_stream:
            told = root.wake_streams[subscription.config.wake_stream]
            del told[active]
            if not told:
                del root.wake_streams[subscription.config.wake_stream]
        if not root.subscriptions:
            # Clients choose the names of buckets: one without subscriptions leaves nothing behind.
            del self._roots[subscription.root.encode()]
        self._forget()

    @property
    def roots(self) -> int:
        """How many stream roots have subscriptions."""
        return len(self._roots)

    def held(self, root: bytes) -> Held:
        """Give how many subscriptions a stream root has, and how many bytes they count for."""
        found = self._roots.get(root)
        return Held(found.subscriptions, found.size) if found else Held()

    def of(self, name: bytes) -> tuple[Active, ...]:
        """Give the subscriptions that a stream wakes. The name must be that of a stream: it is remembered."""
        found = self._remembered.get(name)
        if found is None:
            found = self.find(name)
            self._remembered_bytes += len(name)
            if len(self._remembered) >= self._max_remembered or self._remembered_bytes > self._max_remembered_bytes:
                self._forget()
                self._remembered_bytes = len(name)
            self._remembered[name] = found
        return found

    def _forget(self) -> None:
        self._remembered.clear()
        self._remembered_bytes = 0

    def told_in(self, name: bytes) -> tuple[Active, ...]:
        """Give the subscriptions whose wake stream has a name."""
        parted = split_name(name)
        root = self._roots.get(parted[0]) if parted else None
        return tuple(root.wake_streams.get(path_of(name), ())) if root else ()

    def find(self, name: bytes) -> tuple[Active, ...]:
        """Find the subscriptions that a stream of this name would wake, whether or not it is there."""
        parted = split_name(name)
        root = self._roots.get(parted[0]) if parted else None
        if parted is None or root is None:
            return ()
        path = parted[1].decode()
        matched = dict.fromkeys(
            active for active in root.globs.match(path) if active.subscription.config.wake_stream != path
        )
        matched.update(root.explicit.get(path, {}))
        return tuple(matched)
