"""Whatever is wrong with a row, a storage answers as if nothing were, or says that something is damaged.

No other error leaves it, and no wrong answer: not another stream's bytes, and not a message too few.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import lmdb
import pytest
from hypothesis import given, settings, strategies as st

from everbrook.protocol import Change, Producer
from everbrook.protocol.errors import StreamDamaged
from everbrook.storage import ACID, FILE_DURABLE, DurableMode, DurableStorage, OsDisk, Storage, StoreError
from everbrook.storage.base_rows import PLACE
from everbrook.storage.lmdb_base import open_environment
from tests.kit.damage import Rows, rows
from tests.kit.drafts import Draft
from tests.kit.stores import commit
from tests.unit.storage.checkpoints import HeldStorage
from tests.unit.storage.engines import open_durable, scratch_folder

MODES = {"acid": ACID, "file": FILE_DURABLE}
NAMES = [b"text", b"json", b"fork"]


def streams() -> Iterator[Change]:
    """Some of everything: text, JSON in batches, producers, a stream that can expire, a fork."""
    text, json = Draft(b"text", 1, ttl_secs=60), Draft(b"json", 2, json=True)
    for number in range(20):
        yield (text.write(b"%02d" % number * 30, producer=(b"p%d" % (number % 3), Producer(0, number, number))),)
        yield (json.write(*(b"%d," % each * 9 for each in range(number % 4 + 1))),)
    yield (Draft(b"fork", 3, source=text, offset=600).write(b"own bytes"),)
    yield text.write(b"recent" * 10), json.write(b"1,", b"2,")


@pytest.fixture(scope="module")
def stores() -> Iterator[dict[str, Path]]:
    """A store of each kind, with all but the last change, closed."""
    with scratch_folder() as name:
        for mode in MODES.values():
            storage = open_durable(Path(name), mode, chunk_bytes=300, small_chunk_bytes=100, segment_bytes=1_000)
            for change in list(streams())[:-1]:
                commit(storage, change)
            storage.close()
        yield {kind: Path(name) / mode.store for kind, mode in MODES.items()}


def told_by_index(storage: Storage, incarnation: int, offset: int) -> tuple[int, int, int]:
    index = storage.index_at(incarnation, offset)
    return index.boundary_after(offset), index.append_end(offset), index.time_at(offset)


def questions(storage: Storage, more: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Everything that can be asked, each by itself."""
    for name in NAMES:
        yield f"load {name!r}", partial(storage.load, name)
    yield "scan", partial(storage.scan, b"", b"", 10)
    yield "count", partial(storage.count, b"")
    yield "mortal", partial(storage.mortal, 0, 10)
    for incarnation, first, tail in ((1, 0, 1200 + 60 * more), (2, 0, 900 + 4 * more), (3, 600, 609)):
        yield f"forks {incarnation}", partial(storage.fork_count, incarnation)
        yield f"keeps {incarnation}", partial(storage.keeps, incarnation, 1)
        for start in range(first, tail, 97):
            place = f"{incarnation} {start}"
            yield f"read {place}", partial(storage.read, incarnation, start, min(start + 200, tail))
            yield f"messages {place}", partial(storage.messages, incarnation, start, tail)
            yield f"boundary before {place}", partial(storage.boundary_at_or_before, incarnation, start)
            yield f"index {place}", partial(told_by_index, storage, incarnation, start)
        for offset, count in ((first, 7), (first, 10_000), (tail, -7), (tail, -10_000)):
            yield f"seek {incarnation} {offset} {count}", partial(storage.seek, incarnation, offset, count)


def answers(storage: Storage, *, recent: bool = False) -> dict[str, object]:
    """Ask everything, with or without a change that is not in the base yet. What is damaged is None."""
    found: dict[str, object] = {}
    if recent:
        commit(storage, list(streams())[-1])
    for question, ask in questions(storage, int(recent)):
        try:
            found[question] = ask()
        except StreamDamaged:
            found[question] = None
    return found


@contextmanager
def copied(store: Path) -> Iterator[Path]:
    with scratch_folder() as name:
        shutil.copytree(store, Path(name) / "copy")
        yield Path(name) / "copy"


def reopened(folder: Path, mode: DurableMode) -> HeldStorage:
    return HeldStorage(folder, mode=mode, chunk_bytes=300, small_chunk_bytes=100, segment_bytes=1_000)


def assert_right(question: str, answer: object, right: object) -> None:
    """See that an answer is right, or says that something is damaged. A damaged stream has no head in a list."""
    if question == "scan":
        assert isinstance(answer, list)
        assert isinstance(right, list)
        assert [name for name, _ in answer] == [name for name, _ in right]
        assert all(head in {None, expected} for (_, head), (_, expected) in zip(answer, right, strict=True))
    elif question == "mortal":
        assert isinstance(answer, list)
        assert isinstance(right, list)
        assert all(head in right for head in answer)
    elif not question.startswith("keeps"):
        assert answer in (None, right) or getattr(answer, "damage", None), question


def damage(changed: Rows, name: bytes, key: bytes, how: str, data: st.DataObject) -> None:
    """Do something to a row. Only of some is it known that they must be there."""
    row = changed.all(name)[key]
    if how == "delete" and name in {b"chunks", b"indexes", b"streams"}:
        changed.delete(name, key)
    elif how == "cut":
        changed.put(name, key, row[: data.draw(st.integers(0, len(row) - 1))])
    elif how == "swap":
        changed.put(name, key, data.draw(st.sampled_from(sorted(changed.all(name).values()))))
    else:
        changed.flip(name, key, data.draw(st.integers(0, len(row) - 1)), data.draw(st.integers(0, 7)))


@pytest.mark.parametrize("recent", [False, True])
@pytest.mark.parametrize("kind", MODES)
def test_no_damaged_row_gives_a_wrong_answer_or_another_error(
    kind: str, stores: dict[str, Path], *, recent: bool
) -> None:
    with copied(stores[kind]) as folder:
        with rows(folder) as found:
            places = [(name, key) for name in found.names() for key in found.all(name)]
        storage = reopened(folder, MODES[kind])
        right = answers(storage, recent=recent)
        storage.close()

    @settings(max_examples=120, deadline=None, database=None)
    @given(data=st.data(), place=st.sampled_from(places), how=st.sampled_from(["flip", "cut", "swap", "delete"]))
    def check(data: st.DataObject, place: tuple[bytes, bytes], how: str) -> None:
        with copied(stores[kind]) as folder:
            with rows(folder) as changed:
                damage(changed, *place, how, data)
            try:
                storage = reopened(folder, MODES[kind])
            except StoreError:
                assert place[0] == b"meta"
                return
            for question, answer in answers(storage, recent=recent).items():
                assert_right(question, answer, right[question])
            storage.close()

    check()


def test_a_missing_chunk_never_gives_the_bytes_of_another_stream(stores: dict[str, Path]) -> None:
    with copied(stores["acid"]) as folder:
        with rows(folder) as changed:
            for key in changed.all(b"chunks"):
                if PLACE.unpack(key)[0] == 2:
                    changed.delete(b"chunks", key)
        storage = reopened(folder, ACID)
        with pytest.raises(StreamDamaged, match="a chunk is missing"):
            storage.read(2, 0, 50)
        storage.close()


class BrokenEnvironment:
    """An LMDB environment that can't be read any more once it is told so."""

    def __init__(self, env: lmdb.Environment) -> None:
        self._env = env
        self.broken = False

    def begin(self, *, write: bool = False, buffers: bool = False) -> object:
        if self.broken:
            raise lmdb.CorruptedError("mdb_txn_begin: MDB_CORRUPTED: Located page was wrong type")
        return self._env.begin(write=write, buffers=buffers)  # type: ignore[call-overload]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it is
        return getattr(self._env, name)


@pytest.mark.parametrize("kind", MODES)
def test_an_error_of_lmdb_is_damage(kind: str, stores: dict[str, Path]) -> None:
    environments: list[BrokenEnvironment] = []

    def open_broken(folder: Path) -> lmdb.Environment:
        environments.append(BrokenEnvironment(open_environment(folder)))
        return cast("lmdb.Environment", environments[-1])

    with copied(stores[kind]) as folder:
        storage = DurableStorage(OsDisk(), folder, MODES[kind], salt=7, open_environment=open_broken)
        environments[0].broken = True
        assert set(answers(storage).values()) == {None, True}
        storage.discard(1)
        environments[0].broken = False
        storage.close()
