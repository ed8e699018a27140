"""A storage that goes on while it is pinned: streams are made, written to, cut and dropped at random."""

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

from everbrook.storage import DurableStorage, Pin, Storage
from everbrook.storage.api import Blobs
from everbrook.storage.backups.store_copy import PinSource, StoreCopy
from tests.kit.drafts import Draft
from tests.kit.stores import inspect
from tests.unit.storage.engines import StorageEngine, Store

Model = dict[bytes, tuple[int, int, bytes]]
"""Of each stream: where its past begins, its tail, and what can be read between the two."""


def write_blob(blobs: Blobs, owner: int, number: int, content: bytes) -> None:
    draft = blobs.begin(owner, number)
    draft.write(content)
    draft.finish()


class Life:
    """Does one thing after the other to a store, and knows what should be in it."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self._store = store
        self._chance = chance
        self._streams: dict[bytes, Draft] = {}
        self._blobs: dict[bytes, tuple[int, bytes]] = {}
        self._last = 0

    def live(self, steps: int) -> None:
        """Go on for a while."""
        doings = [self._create] + [self._write] * 6 + [self._cut, self._drop, self._swap]
        for _ in range(steps):
            self._chance.choice(doings)()

    def _create(self) -> None:
        self._last += 1
        stream = Draft(b"%d" % (self._last % 7), self._last)
        old = self._streams.get(stream.name)
        change = (stream.write(b"first"),)
        self._store.commit((old.drop(), *change) if old else change)
        self._streams[stream.name] = stream
        self._remove_blob(stream.name, old)

    def _write(self) -> None:
        for stream in self._chance.sample(sorted(self._streams.values(), key=id), min(2, len(self._streams))):
            self._store.commit((stream.write(self._chance.randbytes(self._chance.randrange(1, 400))),))

    def _cut(self) -> None:
        """Publish a snapshot, and let go of what it stands for."""
        for stream in list(self._streams.values())[:1]:
            self._last += 1
            content = self._chance.randbytes(200)
            write_blob(self._store.storage.blobs, stream.incarnation, self._last, content)
            earliest = self._chance.choice([each for each in stream.boundaries if each >= stream.head.kept.earliest])
            before = stream.head.kept.snapshot
            self._store.commit((stream.cut(earliest, blob=self._last, content=content),))
            self._store.storage.discard(stream.incarnation)
            if before:
                self._store.storage.blobs.remove(stream.incarnation, before.blob)

    def _drop(self) -> None:
        if len(self._streams) > 3:
            name = self._chance.choice(sorted(self._streams))
            stream = self._streams.pop(name)
            self._store.commit((stream.drop(),))
            self._remove_blob(name, stream)

    def _swap(self) -> None:
        """Change two streams at once: entirely, or not at all."""
        if len(self._streams) > 1:
            one, other = self._chance.sample(sorted(self._streams.values(), key=id), 2)
            self._store.commit((one.write(b"both"), other.write(b"both")))

    def _remove_blob(self, _name: bytes, stream: Draft | None) -> None:
        if stream and stream.head.kept.snapshot:
            self._store.storage.blobs.remove(stream.incarnation, stream.head.kept.snapshot.blob)

    def model(self) -> Model:
        """What should be in the store now."""
        return {
            name: (stream.head.kept.earliest, stream.head.tail, stream.data[stream.head.kept.earliest :])
            for name, stream in self._streams.items()
        }


def found(storage: Storage) -> Model:
    """What is in a store."""
    contents: Model = {}
    for name, head in storage.scan(b"", b"", 1000):
        assert head is not None
        earliest = head.kept.earliest
        data = storage.read(head.identity.incarnation, earliest, head.tail) if earliest < head.tail else b""
        contents[name] = (earliest, head.tail, data)
    return contents


def copy_of(pin: Pin, folder: TemporaryDirectory[str] | Path) -> StoreCopy:
    """Copy a pinned store into a folder."""
    target = Path(folder.name if isinstance(folder, TemporaryDirectory) else folder)
    copy = StoreCopy(PinSource(pin), target, None, lambda _size: None, Event())
    copy.run()
    return copy


def reopened(engine: StorageEngine, pin: Pin, folder: Path) -> Model:
    """Copy a pinned store, check and open the copy, and see that nothing is wrong with it."""
    copy_of(pin, folder / pin.store)
    assert inspect(folder / pin.store).damages == []
    with Store(engine, folder, reopening=False) as copy:
        storage = copy.storage
        assert isinstance(storage, DurableStorage)
        assert (storage.damages, storage.remarks, storage.damaged_streams, storage.refusal) == ([], [], 0, None)
        return found(storage)
