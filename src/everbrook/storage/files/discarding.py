"""Discarding: letting go of what neither a stream nor a fork of it needs, the segments of its log and its blobs.

A log begins later at once, for whoever reads it; its files go in the background, in `removals.py`. What can't be read
may need anything: then nothing goes.
"""

from collections.abc import Callable
from contextlib import suppress

from everbrook.protocol.errors import StreamDamaged, Unavailable
from everbrook.protocol.state import Head, Identity
from everbrook.storage.files.cache import Cache
from everbrook.storage.files.entries import Entries
from everbrook.storage.files.logs import Logs
from everbrook.storage.files.reader import Reader
from everbrook.storage.files.removals import Removals
from everbrook.storage.retained import floor_of, needs_blob

# So many forks are asked what they need, and so many are remembered that were.
FORKS_AT_ONCE = 1000
KNOWN_FORKS = 10 * FORKS_AT_ONCE


def retained_from(head: Head, entries: Entries, identity_of: Callable[[int], Identity | None]) -> int:
    """Give the offset from which on a stream is needed."""
    forks = entries.forks(head.identity.incarnation)
    if not forks:
        return floor_of(head, None)
    oldest = identity_of(min(forks))
    return floor_of(head, oldest) if oldest else 0


class Discarder:
    """Knows what is needed, and has the rest removed."""

    def __init__(self, entries: Entries, logs: Logs, reader: Reader, removals: Removals) -> None:
        self._entries = entries
        self._logs = logs
        self._reader = reader
        self._removals = removals
        self._forks: Cache[int, Identity] = Cache(KNOWN_FORKS, lambda _: 1)

    def discard(self, incarnation: int) -> None:
        """Let go of the segments of a stream that nobody needs, if it is there."""
        with suppress(StreamDamaged, Unavailable):
            if self._reader.has(incarnation):
                log = self._reader.log(incarnation)
                head = log.state.head
                floor = retained_from(head, self._entries, self._identity_of)
                if floor > head.identity.first_own_offset:
                    self._removals.add(incarnation, self._reader.let_go(incarnation, floor), log.segment)

    def _identity_of(self, fork: int) -> Identity | None:
        identity = self._forks.use(fork) or self._logs.identity(fork)
        if identity:
            self._forks.put(fork, identity)
        return identity

    def keeps(self, owner: int, blob: int) -> bool:
        """Tell whether a stream or a fork of it needs a blob. If there are too many to ask, it is kept."""
        forks = self._entries.forks(owner)
        if len(forks) > FORKS_AT_ONCE:
            forks = [fork for fork in forks if fork > blob]
        if len(forks) > FORKS_AT_ONCE:
            return True
        identities = [identity for fork in forks if (identity := self._identity_of(fork))]
        try:
            head = self._reader.head(owner) if self._reader.has(owner) else None
        except (StreamDamaged, Unavailable):
            return True
        return len(identities) < len(forks) or needs_blob(head, identities, blob)
