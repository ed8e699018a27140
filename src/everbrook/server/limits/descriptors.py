"""File descriptors: how many connections and open blobs fit beside the files that the server itself needs.

A process without a free descriptor can't open the next file of its journal. So the server divides the limit of the
system (RLIMIT_NOFILE) at the start, and refuses connections and blobs before the files of the storage are affected.
"""

import sys
from contextlib import suppress

from msgspec import Struct

from everbrook.server.tuning import ListenerTuning
from everbrook.settings import Settings

# For the standard streams, the event loop, logs, name resolution, certificates, keys, metrics and traces.
BASE_FILES = 64
# For the storage: LMDB, the journal, the segments that reads and checkpoints keep open, and the files that backups pin.
STORAGE_FILES = 192
# If not everything fits, blobs get this fraction (1/8) of the rest.
BLOB_SHARE = 8
MIN_BLOBS = 8
MIN_CONNECTIONS = 16


class Allotment(Struct, frozen=True):
    """How many connections and open blobs there may be at a time, and the reserve for the server itself."""

    connections: int
    blobs: int
    reserve: int

    @property
    def total(self) -> int:
        """How many descriptors the process may need."""
        return self.connections + self.blobs + self.reserve


def allot(settings: Settings, limit: int, tuning: ListenerTuning) -> Allotment:
    """Divide the descriptors that the system allows. If they are too few, the number of connections is 0."""
    reserve, most = reserved(settings, tuning), settings.limits.max_connections
    free = max(0, limit - reserve)
    blobs = max(MIN_BLOBS, min(most, max(free // BLOB_SHARE, free - most)))
    connections = max(0, min(most, free - blobs))
    return Allotment(connections if connections >= min(most, MIN_CONNECTIONS) else 0, blobs, reserve)


def reserved(settings: Settings, tuning: ListenerTuning) -> int:
    """Return how many descriptors the server reserves beside admitted connections and blobs."""
    refused = tuning.max_turned_away + tuning.accepted_at_once
    handshakes = tuning.encryption.min_handshakes if settings.tls.configured else 0
    return BASE_FILES + refused + handshakes + settings.webhooks.max_concurrent + STORAGE_FILES


def wanted(settings: Settings, tuning: ListenerTuning) -> int:
    """Return how many descriptors allow a blob for each connection."""
    return allot(settings, sys.maxsize, tuning).total


def descriptor_limit() -> int:
    """Return how many descriptors this process may have (the soft limit)."""
    return _limits()[0]


def largest_limit() -> int:
    """Return the hard limit, up to which this process may raise its soft limit."""
    return _limits()[1]


def raise_limit(count: int) -> None:
    """Raise the soft limit to `count`, or to the hard limit if that is lower."""
    soft, hard = _limits()
    if soft < count:
        import resource

        _, given = resource.getrlimit(resource.RLIMIT_NOFILE)
        # macOS refuses more than a limit of its own, even if the hard limit is infinite: the soft limit stays then.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), given))


def _limits() -> tuple[int, int]:
    """Return the soft and the hard limit. On a system without limits both are the largest integer."""
    try:
        import resource
    except ImportError:
        return sys.maxsize, sys.maxsize
    soft, hard = (
        sys.maxsize if each == resource.RLIM_INFINITY else each for each in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    return soft, hard
