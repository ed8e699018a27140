"""The memory storage: keeps streams in dictionaries and runs of bytes until the process ends."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from threading import Lock
from types import MappingProxyType
from weakref import WeakValueDictionary

from msgspec import Struct

from everbrook.protocol.errors import StreamDamaged
from everbrook.protocol.path import bucket_of
from everbrook.protocol.state import Change, Head, Identity, Producer, Write
from everbrook.storage.api import Record, floor_of, needs_blob
from everbrook.storage.damage import Damage, DamageMark
from everbrook.storage.message_index import INDEX_ENTRY_BYTES, MessageIndex, Messages, Run
from everbrook.storage.sorted_names import SortedNames

STREAM_BYTES = 2048
"""The memory of a stream beside its bytes: its head and identity, its run, its entries in dictionaries."""

PRODUCER_BYTES = 512
"""The memory of a producer beside its id and its position: its state, and its entries in dictionaries."""


def producers_bytes(producers: Mapping[bytes, Producer]) -> int:
    return sum(starmap(producer_bytes, producers.items()))


def producer_bytes(producer_id: bytes, producer: Producer | None) -> int:
    """Return the memory that a producer takes; 0 for None."""
    return PRODUCER_BYTES + len(producer_id) + len(producer.position or b"") if producer else 0


def more_producer_bytes(producer_id: bytes, before: Producer | None, after: Producer) -> int:
    """Return by how much a change of a producer increases the memory that it takes."""
    if before is not None and before.position is after.position:
        return 0
    return producer_bytes(producer_id, after) - producer_bytes(producer_id, before)


class BucketUsage(Struct, weakref=True):
    """The memory of the streams of a bucket, or of the base surface."""

    stream_bytes: int = 0
    blob_bytes: int = 0
    """The bytes of snapshots, including those that a thread is writing."""


class MemoryStorage:
    """Keeps streams until the process ends."""

    promise = "streams are gone when this process ends"
    blocking = False
    checkpoints = None
    damages: Sequence[Damage] = ()
    epoch = 0
    damaged_streams = 0
    refusal = None
    unsealed = False

    def __init__(self) -> None:
        self._incarnations: dict[bytes, int] = {}
        self._names = SortedNames(self._incarnations.keys())
        self._heads: dict[int, Head] = {}
        self._runs: dict[int, Run] = {}
        self._producers: dict[int, dict[bytes, Producer]] = {}
        self._forks: dict[int, dict[int, Identity]] = {}
        self._stream_bytes = 0
        self._usages = WeakValueDictionary[bytes | None, BucketUsage]()
        self._usage_of: dict[int, BucketUsage] = {}
        self.blobs = MemoryBlobs(self._usage_of)
        self.last_incarnation = 0

    @property
    def used_bytes(self) -> int:
        return self._stream_bytes + self.blobs.used_bytes

    def bucket_bytes(self, bucket_id: bytes) -> int:
        usage = self._usages.get(bucket_id)
        return usage.stream_bytes + usage.blob_bytes if usage else 0

    def _count(self, incarnation: int, more_bytes: int) -> None:
        self._stream_bytes += more_bytes
        self._usage_of[incarnation].stream_bytes += more_bytes

    def prepare(self, group: Sequence[Change]) -> None:
        """There is nothing to frame."""

    def persist(self, group: Sequence[Change]) -> None:
        """Do nothing: no disk has to be waited for."""

    def damage_of(self, _incarnation: int) -> DamageMark | None:
        """Return None: memory has no damage."""
        return None

    def mark(self, _incarnation: int, _mark: DamageMark) -> None:
        """Do nothing: memory has no damage."""

    def seal(self) -> None:
        """Do nothing: no group is durable."""

    def cost_bytes(self, write: Write) -> int:
        cost = len(write.data) + INDEX_ENTRY_BYTES * (len(write.ends) + 2) if write.data else 0
        if write.created:
            return cost + STREAM_BYTES
        if write.producer_id is not None:
            known = self._producers.get(write.head.identity.incarnation, {}).get(write.producer_id)
            cost += producer_bytes(write.producer_id, write.producer) - producer_bytes(write.producer_id, known)
        return cost

    def apply(self, group: Sequence[Change]) -> None:
        for change in group:
            for edit in change:
                if isinstance(edit, Write):
                    self._write(edit)
                else:
                    self._drop(edit.head.identity)

    def _write(self, write: Write) -> None:
        identity = write.head.identity
        if write.created:
            self._create(identity)
        self._heads[identity.incarnation] = write.head
        if write.head.kept.snapshot:
            self.last_incarnation = max(self.last_incarnation, write.head.kept.snapshot.blob)
        if write.data:
            grown_bytes = self._runs[identity.incarnation].append(write.data, write.ends, write.head.written_at)
            # `_count` is inlined, because every append comes here.
            self._stream_bytes += grown_bytes
            self._usage_of[identity.incarnation].stream_bytes += grown_bytes
        if write.producer_id is not None or write.forgotten:
            self._remember(write)

    def _create(self, identity: Identity) -> None:
        self._incarnations[identity.name] = identity.incarnation
        self.last_incarnation = max(self.last_incarnation, identity.incarnation)
        self._names.add(identity.name)
        self._runs[identity.incarnation] = Run(identity.first_own_offset, batched=identity.json)
        self._producers[identity.incarnation] = {}
        self._usage_of[identity.incarnation] = self._usages.setdefault(bucket_of(identity.name), BucketUsage())
        self._count(identity.incarnation, STREAM_BYTES)
        if identity.fork:
            self._forks.setdefault(identity.fork.source_incarnation, {})[identity.incarnation] = identity

    def _remember(self, write: Write) -> None:
        producers = self._producers[incarnation := write.head.identity.incarnation]
        for producer_id in write.forgotten:
            self._count(incarnation, -producer_bytes(producer_id, producers.pop(producer_id)))
        if write.producer_id is not None and write.producer is not None:
            more_bytes = more_producer_bytes(write.producer_id, producers.get(write.producer_id), write.producer)
            producers[write.producer_id] = write.producer
            if more_bytes:
                self._count(incarnation, more_bytes)

    def _drop(self, identity: Identity) -> None:
        del self._incarnations[identity.name], self._heads[identity.incarnation]
        self._names.remove(identity.name)
        run = self._runs.pop(identity.incarnation)
        producers = self._producers.pop(identity.incarnation)
        self._count(identity.incarnation, -run.used_bytes - STREAM_BYTES - producers_bytes(producers))
        del self._usage_of[identity.incarnation]
        if identity.fork:
            siblings = self._forks[identity.fork.source_incarnation]
            del siblings[identity.incarnation]
            if not siblings:
                del self._forks[identity.fork.source_incarnation]

    def load(self, name: bytes) -> Record | None:
        incarnation = self._incarnations.get(name)
        if incarnation is None:
            return None
        return Record(self._heads[incarnation], self._producers[incarnation])

    def scan(self, prefix: bytes, after: bytes, limit: int) -> list[tuple[bytes, Head | None]]:
        return [(name, self._heads[self._incarnations[name]]) for name in self._names.scan(prefix, after, limit)]

    def count(self, prefix: bytes) -> int:
        return self._names.count(prefix)

    def mortal(self, _after: int, _limit: int) -> list[Head]:
        """Return none: the engine has all streams in memory, and their deadlines."""
        return []

    def fork_count(self, incarnation: int) -> int:
        return len(self._forks.get(incarnation, ()))

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        return self._runs[incarnation].read(start, end)

    def boundary_at_or_before(self, incarnation: int, offset: int) -> int:
        return self._runs[incarnation].boundary_at_or_before(offset)

    def index_at(self, incarnation: int, _offset: int, /) -> MessageIndex:
        return self._runs[incarnation]

    def messages(self, incarnation: int, start: int, end: int) -> Messages:
        return self._runs[incarnation].messages_between(start, end)

    def seek(self, incarnation: int, offset: int, count: int) -> tuple[int, int]:
        return self._runs[incarnation].seek(offset, count)

    def discard(self, incarnation: int) -> None:
        head = self._heads.get(incarnation)
        if head:
            oldest_fork = next(iter(self._forks.get(incarnation, {}).values()), None)
            self._count(incarnation, -self._runs[incarnation].discard(floor_of(head, oldest_fork)))

    def keeps(self, owner: int, blob: int) -> bool:
        return needs_blob(self._heads.get(owner), self._forks.get(owner, {}).values(), blob)

    def pin(self) -> None:
        """Return None: no files."""

    def verify(self) -> str | None:
        """Return None: no folder could be lost, and no file could be damaged."""
        return None

    def close(self) -> None:
        for kept in (self._incarnations, self._heads, self._runs, self._producers, self._forks, self._usage_of):
            kept.clear()


class MemoryBlobs:
    """Keeps blobs until the process ends."""

    def __init__(self, usage_of: Mapping[int, BucketUsage] = MappingProxyType({})) -> None:
        """Count the bytes of a blob for the bucket of its owner. `usage_of` has the buckets by incarnation."""
        self._usage_of = usage_of
        self._blobs: dict[tuple[int, int], tuple[BucketUsage, list[bytes]]] = {}
        self._lock = Lock()
        self.used_bytes = 0

    def begin(self, owner: int, number: int) -> "MemoryDraft":
        return MemoryDraft(self, (owner, number))

    def usage(self, owner: int) -> BucketUsage:
        """Return the usage of a stream's bucket. Blobs of a dropped stream are not counted: they are removed soon."""
        return self._usage_of.get(owner) or BucketUsage()

    def put(self, key: tuple[int, int], usage: BucketUsage, pieces: list[bytes]) -> None:
        self._blobs[key] = usage, pieces

    def count_bytes(self, usage: BucketUsage, change: int) -> None:
        """Count bytes of blobs, including those that are being written. Two threads call this, so it takes a lock."""
        with self._lock:
            self.used_bytes += change
            usage.blob_bytes += change

    def open(self, owner: int, number: int, _size: int) -> "MemoryBlobReader":
        blob = self._blobs.get((owner, number))
        if blob is None:
            raise StreamDamaged("the snapshot of the stream was lost")
        return MemoryBlobReader(blob[1])

    def remove(self, owner: int, number: int) -> None:
        if blob := self._blobs.pop((owner, number), None):
            usage, pieces = blob
            self.count_bytes(usage, -sum(map(len, pieces)))

    def all(self) -> Iterator[list[tuple[int, int]]]:
        yield list(self._blobs)


class MemoryDraft:
    """A blob that is being written."""

    def __init__(self, blobs: MemoryBlobs, key: tuple[int, int]) -> None:
        self._blobs = blobs
        self._key = key
        self._usage = blobs.usage(key[0])
        self._pieces: list[bytes] = []
        self._finished = False

    def write(self, data: bytes) -> None:
        if data:
            self._pieces.append(data)
        self._blobs.count_bytes(self._usage, len(data))

    def finish(self) -> None:
        self._blobs.put(self._key, self._usage, self._pieces)
        self._finished = True

    def abandon(self) -> None:
        if self._finished:
            self._blobs.remove(*self._key)
        else:
            self._blobs.count_bytes(self._usage, -sum(map(len, self._pieces)))
            self._pieces.clear()


class MemoryBlobReader:
    """Reads the pieces of a blob, one after the other."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = iter(tuple(pieces))
        self._left = b""

    def read(self, size: int) -> bytes:
        piece = self._left or next(self._pieces, b"")
        self._left = piece[size:]
        return piece[:size]

    def close(self) -> None:
        """Do nothing: the reader has no file."""
