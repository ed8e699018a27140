"""The contract: what nobody retains may go, and everything else stays as it is (002 §2.2)."""

import random
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import lmdb
import pytest

from everbrook.protocol import Change
from everbrook.storage import OsDisk, Storage, StorageTuning
from everbrook.storage.checkpoint import Checkpoint
from everbrook.storage.chunk_reader import ChunkReader
from everbrook.storage.lmdb_base import open_base
from tests.kit.drafts import Draft
from tests.unit.storage.contract.test_messages import found_messages, model_messages, model_seek
from tests.unit.storage.engines import ENGINES, WAY_NAMES, WAYS, Store, open_durable, scratch_folder


def assert_whole_from(storage: Storage, stream: Draft, floor: int, chance: random.Random, places: int = 20) -> None:
    """Everything that can be asked about the bytes from `floor` on is answered as if nothing had gone.

    Messages are counted from some `places` chosen by chance.
    """
    incarnation, tail = stream.incarnation, stream.head.tail
    assert storage.read(incarnation, floor, tail) == stream.data[floor - stream.first :]
    assert found_messages(storage, incarnation, floor, tail) == model_messages(stream, floor, tail)
    boundaries = [offset for offset in stream.boundaries if offset >= floor]
    for offset in chance.choices(boundaries, k=min(places, len(boundaries))):
        assert storage.boundary_at_or_before(incarnation, offset) == offset
        for count in (-300, -3, -1, 1, 3, 300):
            position, left = storage.seek(incarnation, offset, count)
            expected = model_seek(stream, offset, count)
            assert (position, left) == expected or max(position, expected[0]) <= floor
        if offset < tail:
            assert (
                storage.index_at(incarnation, offset).boundary_after(offset)
                == boundaries[bisect_right(boundaries, offset)]
            )
            assert storage.index_at(incarnation, offset).append_end(offset) == next(
                end for end in stream.append_ends if end > offset
            )
            assert (
                storage.index_at(incarnation, offset).time_at(offset)
                == stream.times[bisect_right(stream.boundaries, offset) - 1]
            )


def test_what_is_retained_stays(store: Store) -> None:
    chance, stream = random.Random(1), Draft(b"a", 1)
    for number in range(40):
        store.commit((stream.write(b"%d" % number * 30),))
    store.commit((stream.cut(stream.boundaries[25]),))
    store.storage.discard(1)
    assert_whole_from(store.storage, stream, stream.boundaries[25], chance)
    store.reopen_if_durable()
    store.storage.discard(1)
    store.commit((stream.write(b"after it"),))
    assert_whole_from(store.storage, stream, stream.boundaries[25], chance)


def test_what_goes_while_messages_are_counted_is_no_damage(tmp_path: Path) -> None:
    with closing(open_durable(tmp_path)) as storage:
        storage.persist([change := (Draft(b"a", 1).write(b"text"),)])
        storage.apply([change])
    with closing(open_base(OsDisk(), tmp_path / "acid")) as base:

        @contextmanager
        def reading(incarnation: int, *, buffers: bool) -> "Iterator[lmdb.Transaction[Any]]":
            with base.reading(incarnation, buffers=buffers) as transaction:
                yield transaction
            with Checkpoint(base, StorageTuning()) as checkpoint:
                checkpoint.discard({1: 4})
                checkpoint.commit()

        assert ChunkReader(reading, base.databases, base.segments).seek(1, 4, 3) == (4, 3)


def test_all_of_a_stream_may_go(store: Store) -> None:
    chance, stream = random.Random(1), Draft(b"a", 1)
    for number in range(20):
        store.commit((stream.write(b"%d" % number * 30),))
    tail = stream.head.tail
    store.commit((stream.cut(tail),))
    store.storage.discard(1)
    assert_whole_from(store.storage, stream, tail, chance)
    store.reopen_if_durable()
    assert_whole_from(store.storage, stream, tail, chance)
    store.commit((stream.write(b"after it"),))
    store.commit((stream.write(b"and more"),))
    assert_whole_from(store.storage, stream, tail, chance)


def test_a_cut_inside_a_batch_keeps_the_rest_of_it(store: Store) -> None:
    chance, stream = random.Random(1), Draft(b"a", 1, json=True)
    store.commit((stream.write(*(b"%d," % number * 9 for number in range(30))),))
    store.commit((stream.write(b"1,", b"2,"),))
    store.commit((stream.cut(stream.boundaries[13]),))
    store.storage.discard(1)
    assert_whole_from(store.storage, stream, stream.boundaries[13], chance)


def test_nothing_goes_that_was_not_discarded_or_not_cut(store: Store) -> None:
    chance, stream = random.Random(1), Draft(b"a", 1)
    for number in range(20):
        store.commit((stream.write(b"%d" % number * 30),))
    store.storage.discard(1)
    assert_whole_from(store.storage, stream, 0, chance)


def test_discarding_what_is_not_there_does_nothing(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(b"x"),))
    store.commit((stream.drop(),))
    store.storage.discard(1)
    store.storage.discard(2)
    assert store.storage.load(b"a") is None


def test_a_fork_keeps_what_its_source_retained_when_it_was_made(store: Store) -> None:
    chance, source = random.Random(1), Draft(b"s", 1)
    for number in range(30):
        store.commit((source.write(b"%d" % number * 30),))
    first, second = source.boundaries[10], source.boundaries[20]
    store.commit((source.cut(first),))
    fork = Draft(b"f", 2, source=source, offset=source.boundaries[15])
    store.commit((fork.write(b"of the fork"),))
    store.commit((source.cut(second),))
    store.storage.discard(1)
    store.reopen_if_durable()
    assert_whole_from(store.storage, source, first, chance)
    store.commit((fork.drop(),))
    store.storage.discard(1)
    assert_whole_from(store.storage, source, second, chance)


def test_the_oldest_fork_that_lives_decides(store: Store) -> None:
    chance, source = random.Random(1), Draft(b"s", 1)
    forks: list[Draft] = []
    for number in range(4):
        for _ in range(10):
            store.commit((source.write(b"%d" % number * 50),))
        forks.append(Draft(b"f%d" % number, 2 + number, source=source, offset=source.head.tail))
        store.commit((forks[-1].write(b"x"),))
        store.commit((source.cut(source.head.tail),))
        store.storage.discard(1)
    assert_whole_from(store.storage, source, 0, chance)
    store.commit((forks[0].drop(),), (forks[2].drop(),))
    store.storage.discard(1)
    assert_whole_from(store.storage, source, forks[1].head.kept.earliest, chance)


class Lived(Protocol):
    """The store that a life happens in."""

    @property
    def storage(self) -> Storage: ...

    def commit(self, *group: Change) -> None: ...

    def reopen_if_durable(self) -> None: ...


class Life:
    """A stream that is written, cut and forked at random, and told to let go of what it can."""

    def __init__(self, store: Lived, seed: int) -> None:
        self._store = store
        self._chance = random.Random(seed)
        self.stream = Draft(b"s", 1, json=self._chance.random() < 0.5)
        self._forks: list[Draft] = []
        self._incarnation = 1
        store.commit((self.stream.write(),))

    def step(self) -> None:
        kind = self._chance.choice(["write"] * 6 + ["cut", "discard", "discard", "fork", "unfork", "reopen"])
        change: Change | None = getattr(self, f"_{kind}")()
        if change:
            self._store.commit(change)

    def _write(self) -> Change:
        size = self._chance.choice([1, 40, 40, 3_000])
        count = self._chance.randint(1, 5) if self.stream.head.identity.json else 1
        return (self.stream.write(*(self._chance.randbytes(size) for _ in range(count))),)

    def _cut(self) -> Change:
        earliest = self.stream.head.kept.earliest
        return (self.stream.cut(self._chance.choice([each for each in self.stream.boundaries if each >= earliest])),)

    def _discard(self) -> None:
        self._store.storage.discard(1)

    def _fork(self) -> Change:
        self._incarnation += 1
        fork = Draft(b"f%d" % self._incarnation, self._incarnation, source=self.stream, offset=self.stream.head.tail)
        self._forks.append(fork)
        return (fork.write(b"x"),)

    def _unfork(self) -> Change | None:
        return (self._forks.pop(self._chance.randrange(len(self._forks))).drop(),) if self._forks else None

    def _reopen(self) -> None:
        self._store.reopen_if_durable()

    @property
    def floor(self) -> int:
        return min(draft.head.kept.earliest for draft in (self.stream, *self._forks))


@pytest.mark.parametrize("name,reopening", WAYS, ids=WAY_NAMES)
@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_what_somebody_retains_stays(*, name: str, reopening: bool, seed: int) -> None:
    chance = random.Random(seed)
    with scratch_folder() as folder, Store(ENGINES[name], Path(folder), reopening=reopening) as store:
        life = Life(store, seed)
        for _ in range(80):
            life.step()
            assert_whole_from(store.storage, life.stream, life.floor, chance, places=5)


# Blobs that are kept


def test_a_blob_is_kept_while_it_is_the_snapshot(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(b"x"),))
    assert not store.storage.keeps(1, 5)
    store.commit((stream.cut(1, blob=5),))
    assert store.storage.keeps(1, 5)
    store.commit((stream.cut(1, blob=6),))
    assert (store.storage.keeps(1, 5), store.storage.keeps(1, 6)) == (False, True)
    store.commit((stream.drop(),))
    assert not store.storage.keeps(1, 6)


def test_a_fork_keeps_the_blob_that_it_began_with(store: Store) -> None:
    source = Draft(b"s", 1)
    store.commit((source.write(b"x"),), (source.cut(1, blob=5),))
    fork, other = (Draft(b"f%d" % number, number, source=source, offset=1) for number in (6, 9))
    store.commit((fork.write(),), (other.write(b"y"),))
    store.commit((source.cut(1, blob=10),))
    store.commit((fork.write(b"z"),), (fork.cut(2, blob=11),))
    store.commit((other.drop(),))
    assert store.storage.keeps(1, 5)
    store.commit((fork.drop(),))
    assert not store.storage.keeps(1, 5)
    assert store.storage.keeps(1, 10)


def test_forks_older_than_a_blob_do_not_keep_it(store: Store) -> None:
    source = Draft(b"s", 1)
    store.commit((source.write(b"x"),), (Draft(b"f", 2, source=source, offset=1).write(),))
    store.commit((source.cut(1, blob=5),))
    store.commit((source.cut(1, blob=6),))
    assert not store.storage.keeps(1, 5)


def test_an_automatic_snapshot_has_no_blob(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(b"x"),), (stream.cut(1),))
    assert not store.storage.keeps(1, 5)
    record = store.storage.load(b"a")
    assert record
    assert record.head == stream.head


def test_a_blob_of_a_source_with_very_many_forks_may_be_kept(store: Store) -> None:
    source = Draft(b"s", 1)
    store.commit((source.write(b"x"),), (source.cut(1, blob=2),))
    forks = [Draft(b"f%d" % number, number, source=source, offset=1) for number in range(3, 1200)]
    store.commit(*((fork.write(),) for fork in forks))
    store.commit((source.cut(1, blob=3000),))
    assert store.storage.keeps(1, 2)
    store.commit(*((fork.drop(),) for fork in forks))
    assert not store.storage.keeps(1, 2)
