"""A look round a store that was opened again: what is listed, the bytes of the snapshots, and what nobody needs.

What is cleared away must be missed by nobody, and nothing that can be cleared away may stay for ever.
"""

from hashlib import sha256
from itertools import chain

from everbrook.protocol import Head, Snapshot as Published
from everbrook.storage import DurableStorage, Storage
from everbrook.storage.api import BlobReader
from everbrook.storage.check.repair import segments_of
from tests.crash.simulation.promises import Violation
from tests.crash.simulation.snapshot import Snapshot
from tests.crash.simulation.workload import PREFIXES

Blob = tuple[int, int]

READ_BYTES = 1000
PAGE = 2


def check_listing(storage: Storage, found: Snapshot) -> None:
    """See that names are listed and counted as the streams are there, and page by page as well as at once."""
    everything = [(name, found[name].head) for name in sorted(found)]
    if storage.scan(b"", b"", len(found) + 1) != everything:
        raise Violation(f"the streams are listed as {storage.scan(b'', b'', len(found) + 1)}, not {everything}")
    for prefix in PREFIXES:
        expected = [(name, head) for name, head in everything if name.startswith(prefix)]
        listed = _paged(storage, prefix)
        if listed != expected or storage.count(prefix) != len(expected):
            raise Violation(f"of {prefix!r}, {listed} are listed and {storage.count(prefix)} counted, not {expected}")
    if storage.last_incarnation < max((state.head.identity.incarnation for state in found.values()), default=0):
        raise Violation(f"a stream is younger than the last incarnation, {storage.last_incarnation}")


def _paged(storage: Storage, prefix: bytes) -> list[tuple[bytes, Head | None]]:
    listed: list[tuple[bytes, Head | None]] = []
    while page := storage.scan(prefix, listed[-1][0] if listed else b"", PAGE):
        listed += page
    return listed


def check_blobs(storage: Storage, found: Snapshot) -> None:
    """See that the bytes of every snapshot are there, all of them and no others."""
    for name, state in found.items():
        snapshot = state.head.kept.snapshot
        if (
            snapshot
            and not snapshot.automatic
            and not is_whole(storage.blobs.open(snapshot.owner, snapshot.blob, snapshot.size), snapshot)
        ):
            raise Violation(f"the snapshot of {name!r} at {snapshot.offset} is not what was published")


def is_whole(reader: BlobReader, snapshot: Published) -> bool:
    """Tell whether a blob holds what its snapshot says."""
    data = b"".join(iter(lambda: reader.read(READ_BYTES), b""))
    reader.close()
    return len(data) == snapshot.size and sha256(data).digest() == snapshot.digest


def sweep_blobs(storage: Storage) -> None:
    """Remove the blobs that nothing refers to, as an engine does when it starts."""
    for owner, blob in list(chain.from_iterable(storage.blobs.all())):
        if not storage.keeps(owner, blob):
            storage.blobs.remove(owner, blob)


def check_swept(storage: Storage, found: Snapshot) -> None:
    """See that the blobs that are there are those which streams have, or forks began with."""
    left, needed = set(chain.from_iterable(storage.blobs.all())), _needed(found)
    if left != needed:
        raise Violation(f"after a sweep the blobs {left - needed} are still there, and {needed - left} are not")


def _needed(found: Snapshot) -> set[Blob]:
    heads = [state.head for state in found.values()]
    kept = [head.kept for head in heads] + [head.identity.first_kept for head in heads]
    snapshots = [each.snapshot for each in kept if each.snapshot]
    return {(snapshot.owner, snapshot.blob) for snapshot in snapshots if not snapshot.automatic}


def check_segments(storage: DurableStorage) -> None:
    """See that no segment is there that the base does not refer to."""
    base = storage._base
    left = set(base.segments.files(None)) - segments_of(base)
    if left:
        raise Violation(f"the segments {left} are there, and nothing refers to them")


def discard_all(storage: Storage, found: Snapshot) -> None:
    """Let go of what streams do not retain, twice: it may have been done before, or not."""
    for incarnation in [state.head.identity.incarnation for state in found.values()] * 2:
        storage.discard(incarnation)
