"""File descriptors: how many connections and open blobs fit beside the files that the server itself needs.

A process that has no descriptor left can't open the next file of its journal. So the limit of the system
(RLIMIT_NOFILE) is divided at the start, and what does not fit is refused before a file has to be.
"""

import sys
from contextlib import suppress

from msgspec import Struct

from everbrook.server.http1.tuning import ListenerTuning
from everbrook.settings import Settings

# The standard streams, the event loop, logs, lookups of names, certificates, keys, metrics, traces.
BASE_FILES = 64
# What a storage opens at a time: LMDB, the journal, the segments that are read and those that a checkpoint writes, and
# what backups pin.
STORAGE_FILES = 192
# The part of what is left that blobs get where not everything fits.
BLOB_SHARE = 8
MIN_BLOBS = 8
MIN_CONNECTIONS = 16


class Allotment(Struct, frozen=True):
    """How many connections and open blobs there may be at a time, and how many descriptors that takes in all."""

    connections: int
    blobs: int
    reserve: int

    @property
    def total(self) -> int:
        """How many descriptors the process may come to need."""
        return self.connections + self.blobs + self.reserve


def allot(settings: Settings, limit: int, tuning: ListenerTuning) -> Allotment:
    """Divide the descriptors that the system allows. Without enough of them there are no connections."""
    reserve, most = reserved(settings, tuning), settings.limits.max_connections
    free = max(0, limit - reserve)
    blobs = max(MIN_BLOBS, min(most, max(free // BLOB_SHARE, free - most)))
    connections = max(0, min(most, free - blobs))
    return Allotment(connections if connections >= min(most, MIN_CONNECTIONS) else 0, blobs, reserve)


def reserved(settings: Settings, tuning: ListenerTuning) -> int:
    """Give how many descriptors the server keeps for what is neither an admitted connection nor a blob."""
    refused = tuning.max_turned_away + tuning.accepted_at_once
    handshakes = tuning.encryption.min_handshakes if settings.tls.configured else 0
    return BASE_FILES + refused + handshakes + settings.webhooks.max_concurrent + STORAGE_FILES


def wanted(settings: Settings, tuning: ListenerTuning) -> int:
    """Give how many descriptors let every connection have a blob open."""
    return allot(settings, sys.maxsize, tuning).total


def descriptor_limit() -> int:
    """Give how many descriptors this process may have (the soft limit)."""
    return _limits()[0]


def largest_limit() -> int:
    """Give to how many descriptors this process may raise its limit (the hard limit)."""
    return _limits()[1]


def raise_limit(count: int) -> None:
    """Raise the soft limit to `count`, or as far as the system lets an ordinary process."""
    soft, hard = _limits()
    if soft < count:
        import resource  # noqa: PLC0415 - there is a limit, so there is this module

        _, given = resource.getrlimit(resource.RLIMIT_NOFILE)
        # macOS has a smaller limit of its own where the hard one is infinite, and refuses: the soft one stays then.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), given))


def _limits() -> tuple[int, int]:
    """Give the soft and the hard limit. A system without them has as many descriptors as anybody wants."""
    try:
        import resource  # noqa: PLC0415 - not every system has it
    except ImportError:
        return sys.maxsize, sys.maxsize
    soft, hard = (
        sys.maxsize if each == resource.RLIM_INFINITY else each for each in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    return soft, hard
