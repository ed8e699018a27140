"""The contract, generated: whatever is committed in whatever groups, a storage holds what a few dictionaries hold."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from everbrook.protocol import Change, Producer, Write
from everbrook.storage import Record
from tests.kit.drafts import Draft
from tests.unit.storage.engines import ENGINES, WAYS, Store, scratch_folder

NAMES = st.sampled_from([b"a", b"b", b"c", b"d"])
MESSAGES = st.lists(st.binary(min_size=1, max_size=5), max_size=3)


class StorageMachine(RuleBasedStateMachine):
    """Collects changes into a group, and commits it now and then."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = scratch_folder()
        self._streams: dict[bytes, Draft] = {}
        self._group: list[Change] = []
        self._incarnation = 0

    @initialize(way=st.sampled_from(WAYS))
    def open(self, way: tuple[str, bool]) -> None:
        name, reopening = way
        self._store = Store(ENGINES[name], Path(self._folder.name), reopening=reopening)
        self._empty_bytes = self._store.storage.used_bytes

    @rule(name=NAMES, source=NAMES, json=st.booleans(), messages=MESSAGES, data=st.data())
    def create(self, *, name: bytes, source: bytes, json: bool, messages: list[bytes], data: st.DataObject) -> None:
        """A name that is taken passes to the new stream in the same change."""
        old = self._streams.get(name)
        if old and self._forks()[old.incarnation]:
            return
        origin = self._streams.get(source) if source != name else None
        offset = data.draw(st.integers(origin.head.kept.earliest, origin.head.tail)) if origin else 0
        self._incarnation += 1
        stream = Draft(name, self._incarnation, json=json, source=origin, offset=offset)
        write = stream.write(*(messages if json else messages[:1]))
        self._streams[name] = stream
        self._group.append((old.drop(), write) if old else (write,))

    @rule(name=NAMES, messages=MESSAGES, producer=st.sampled_from([None, b"p", b"q"]), closed=st.booleans())
    def write(self, *, name: bytes, messages: list[bytes], producer: bytes | None, closed: bool) -> None:
        stream = self._streams.get(name)
        if stream is None:
            return
        if stream.head.identity.media_type == b"text/plain":
            messages = messages[:1]
        state = (producer, Producer(0, len(stream.data), len(messages))) if producer else None
        forgotten = tuple(known for known in stream.producers if producer and known != producer and closed)
        self._group.append((stream.write(*messages, producer=state, forgotten=forgotten, closed=closed),))

    @rule(name=NAMES, data=st.data())
    def cut(self, *, name: bytes, data: st.DataObject) -> None:
        stream = self._streams.get(name)
        if stream:
            earliest = stream.head.kept.earliest
            offsets = [offset for offset in stream.boundaries if offset >= earliest]
            self._group.append((stream.cut(data.draw(st.sampled_from(offsets))),))

    @precondition(lambda self: not self._group)
    @rule(name=NAMES)
    def discard(self, name: bytes) -> None:
        stream = self._streams.get(name)
        if stream:
            self._store.storage.discard(stream.incarnation)

    @rule(name=NAMES)
    def drop(self, name: bytes) -> None:
        stream = self._streams.get(name)
        if stream and not self._forks()[stream.incarnation]:
            del self._streams[name]
            self._group.append((stream.drop(),))

    def _forks(self) -> Counter[int]:
        forks = (stream.head.identity.fork for stream in self._streams.values())
        return Counter(fork.source_incarnation for fork in forks if fork)

    @precondition(lambda self: self._group)
    @rule()
    def commit(self) -> None:
        """A group takes no more memory than it was said to."""
        group, self._group = self._group, []
        storage = self._store.storage
        writes = [edit for change in group for edit in change if isinstance(edit, Write)]
        allowed = storage.used_bytes + sum(storage.cost_bytes(write) for write in writes)
        self._store.commit(*group)
        assert self._store.storage.used_bytes <= allowed

    @invariant()
    def it_holds_what_was_committed(self) -> None:
        if self._group:
            return
        storage, forks = self._store.storage, self._forks()
        for name in (b"a", b"b", b"c", b"d"):
            stream = self._streams.get(name)
            record = storage.load(name)
            if stream is None:
                assert record is None
                continue
            assert record == Record(stream.head, stream.producers)
            floor = self._floor(stream)
            assert storage.read(stream.incarnation, floor, stream.head.tail) == stream.data[floor - stream.first :]
            assert storage.fork_count(stream.incarnation) == forks[stream.incarnation]
            for before, after in pairwise(offset for offset in stream.boundaries if offset >= floor):
                assert storage.boundary_at_or_before(stream.incarnation, after - 1) == before
                assert storage.index_at(stream.incarnation, before).boundary_after(before) == after

    @invariant()
    def it_lists_what_was_committed(self) -> None:
        if not self._group:
            expected = [(name, self._streams[name].head) for name in sorted(self._streams)]
            assert self._store.storage.scan(b"", b"", 10) == expected
            assert self._store.storage.count(b"a") == (b"a" in self._streams)

    def _floor(self, stream: Draft) -> int:
        """Before this nobody needs a byte of the stream."""
        needs = [
            each.head.identity.first_kept.earliest
            for each in self._streams.values()
            if each.head.identity.fork and each.head.identity.fork.source_incarnation == stream.incarnation
        ]
        return max(stream.first, min([stream.head.kept.earliest, *needs]))

    def teardown(self) -> None:
        while self._streams:
            for name in tuple(self._streams):
                self.drop(name)
        self._store.commit(*self._group)
        assert self._store.storage.used_bytes == self._empty_bytes
        self._store.storage.close()
        self._folder.cleanup()


TestStorage = StorageMachine.TestCase
TestStorage.settings = settings(max_examples=150, stateful_step_count=30, deadline=None, database=None)
