"""The memory engine: dictionaries and runs of bytes, gone with the process."""

from collections.abc import Sequence

from everbrook.protocol.change import Change, Write
from everbrook.protocol.state import Head, Identity, Producer
from everbrook.storage.api import Record
from everbrook.storage.run import INDEX_ENTRY_BYTES, Run

# What a stream costs beside its bytes: its head and identity, its run, its places in dictionaries. And a producer.
STREAM_BYTES = 2048
PRODUCER_BYTES = 256


class MemoryStorage:
    """Keeps streams for as long as the process lives."""

    promise = "streams are gone when this process ends"
    blocking = False

    def __init__(self) -> None:
        self._heads: dict[bytes, Head] = {}
        self._runs: dict[int, Run] = {}
        self._producers: dict[int, dict[bytes, Producer]] = {}
        self._forks: dict[int, set[int]] = {}
        self.used_bytes = 0

    def persist(self, group: Sequence[Change]) -> None:
        """There is nothing to wait for."""

    def cost_bytes(self, write: Write) -> int:
        cost = len(write.data) + INDEX_ENTRY_BYTES * (len(write.ends) + 2) if write.data else 0
        if write.created:
            return cost + STREAM_BYTES
        known = self._producers.get(write.head.identity.incarnation, {})
        if write.producer_id is not None and write.producer_id not in known:
            cost += PRODUCER_BYTES
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
        self._heads[identity.name] = write.head
        if write.data:
            self.used_bytes += self._runs[identity.incarnation].append(write.data, write.ends, write.head.written_at)
        if write.producer_id is not None or write.forgotten:
            self._remember(write)

    def _create(self, identity: Identity) -> None:
        self._runs[identity.incarnation] = Run(identity.first_own_offset, batched=identity.json)
        self._producers[identity.incarnation] = {}
        self.used_bytes += STREAM_BYTES
        if identity.fork:
            self._forks.setdefault(identity.fork.source_incarnation, set()).add(identity.incarnation)

    def _remember(self, write: Write) -> None:
        producers = self._producers[write.head.identity.incarnation]
        before = len(producers)
        for producer_id in write.forgotten:
            del producers[producer_id]
        if write.producer_id is not None and write.producer is not None:
            producers[write.producer_id] = write.producer
        self.used_bytes += (len(producers) - before) * PRODUCER_BYTES

    def _drop(self, identity: Identity) -> None:
        del self._heads[identity.name]
        run = self._runs.pop(identity.incarnation)
        producers = self._producers.pop(identity.incarnation)
        self.used_bytes -= run.used_bytes + STREAM_BYTES + len(producers) * PRODUCER_BYTES
        if identity.fork:
            siblings = self._forks[identity.fork.source_incarnation]
            siblings.discard(identity.incarnation)
            if not siblings:
                del self._forks[identity.fork.source_incarnation]

    def load(self, name: bytes) -> Record | None:
        head = self._heads.get(name)
        if head is None:
            return None
        return Record(head, self._producers[head.identity.incarnation])

    def mortal(self, _after: int, _limit: int) -> list[Head]:
        """All streams are in memory."""
        return []

    def fork_count(self, incarnation: int) -> int:
        return len(self._forks.get(incarnation, ()))

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        return self._runs[incarnation].read(start, end)

    def boundary_at_or_before(self, incarnation: int, offset: int) -> int:
        return self._runs[incarnation].boundary_at_or_before(offset)

    def boundary_after(self, incarnation: int, offset: int) -> int:
        return self._runs[incarnation].boundary_after(offset)

    def append_end(self, incarnation: int, offset: int) -> int:
        return self._runs[incarnation].append_end(offset)

    def close(self) -> None:
        self._heads.clear()
        self._runs.clear()
        self._producers.clear()
        self._forks.clear()
