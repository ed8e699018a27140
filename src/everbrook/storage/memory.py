"""The memory engine: dictionaries and runs of bytes, gone with the process."""

from collections.abc import Sequence

from everbrook.protocol.change import Change, Drop, Edit, Write
from everbrook.protocol.state import Head, Identity, Producer
from everbrook.storage.api import Record
from everbrook.storage.run import Run

# What a stream costs beside its bytes: its head and identity, its run, its places in the dictionaries.
STREAM_OVERHEAD_BYTES = 1024


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

    def apply(self, group: Sequence[Change]) -> None:
        for change in group:
            for edit in change:
                self._apply(edit)

    def _apply(self, edit: Edit) -> None:
        if isinstance(edit, Drop):
            self._drop(edit.head.identity)
            return
        identity = edit.head.identity
        run = self._runs.get(identity.incarnation) or self._create(identity)
        self._heads[identity.name] = edit.head
        if edit.data:
            self.used_bytes += run.append(edit.data, edit.ends)
        if edit.producer_id is not None:
            self._remember(edit)

    def _create(self, identity: Identity) -> Run:
        run = self._runs[identity.incarnation] = Run(identity.first_own_offset, batched=identity.json)
        self.used_bytes += STREAM_OVERHEAD_BYTES
        if identity.fork:
            self._forks.setdefault(identity.fork.source_incarnation, set()).add(identity.incarnation)
        return run

    def _remember(self, edit: Write) -> None:
        producers = self._producers.setdefault(edit.head.identity.incarnation, {})
        for producer_id in edit.forgotten:
            producers.pop(producer_id, None)
        if edit.producer_id is not None and edit.producer is not None:
            producers[edit.producer_id] = edit.producer

    def _drop(self, identity: Identity) -> None:
        del self._heads[identity.name]
        run = self._runs.pop(identity.incarnation)
        self.used_bytes -= run.used_bytes + STREAM_OVERHEAD_BYTES
        self._producers.pop(identity.incarnation, None)
        if identity.fork:
            siblings = self._forks[identity.fork.source_incarnation]
            siblings.discard(identity.incarnation)
            if not siblings:
                del self._forks[identity.fork.source_incarnation]

    def load(self, name: bytes) -> Record | None:
        head = self._heads.get(name)
        if head is None:
            return None
        return Record(head, self._producers.get(head.identity.incarnation, {}))

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
