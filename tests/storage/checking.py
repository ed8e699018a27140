"""Stores to be checked: with some of everything in them, damaged on purpose, and checked in this process."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb
from msgspec import Struct, field
from msgspec.structs import replace

from everbrook.protocol import Change, Producer
from everbrook.storage import AcidStorage, FileStorage, OsDisk, Storage
from everbrook.storage.acid.check import check_acid
from everbrook.storage.acid.rows import seal
from everbrook.storage.check import Damage, Notebook, Position, Remark, Tally
from everbrook.storage.files.check import check_files
from everbrook.storage.files.tuning import FilesTuning
from tests.storage.drafts import Draft

LARGE = bytes(range(256)) * 1200


def open_acid(folder: Path, shard_count: int = 1) -> AcidStorage:
    return AcidStorage(OsDisk(), folder, shard_count=shard_count, salt=7)


def open_files(folder: Path, segment_bytes: int = 300) -> FileStorage:
    return FileStorage(OsDisk(), folder, durable=False, salt=7, tuning=FilesTuning(segment_bytes=segment_bytes))


def commit(storage: Storage, *group: Change) -> None:
    storage.persist(group)
    storage.apply(group)


def mortal(name: bytes, incarnation: int) -> Draft:
    """A stream that can expire."""
    draft = Draft(name, incarnation)
    draft.head = replace(draft.head, identity=replace(draft.head.identity, ttl_secs=60))
    return draft


class Streams:
    """Some of everything: text in several chunks, JSON batches, a fork, a producer, one that can expire, one closed."""

    def __init__(self) -> None:
        self.text = Draft(b"text", 1)
        self.json = Draft(b"json", 2, json=True)
        self.fork = Draft(b"fork", 3, source=self.text, offset=5)
        self.mortal = mortal(b"mortal", 4)
        self.gone = Draft(b"gone", 5)

    def first(self) -> list[Change]:
        producer = (b"some-producer", Producer(epoch=1, seq=2, seen_at=3))
        return [
            (self.text.write(b"first"),),
            (self.text.write(LARGE, producer=producer),),
            (self.json.write(b"1,", b'"two",'),),
            (self.fork.write(b"of the fork"),),
            (self.mortal.write(b"soon over"),),
            (self.gone.write(b"dropped later"),),
        ]

    def second(self) -> list[Change]:
        return [
            (self.text.write(b"again", closed=True),),
            (self.json.write(b"3,", b"4,", b"5,"), self.fork.write(b" more")),
            (self.gone.drop(),),
            (Draft(b"new", 6).write(b"the last one"),),
        ]


def make_store(folder: Path, shard_count: int = 1) -> Path:
    """A store with one part in LMDB and the other in the journal, as a killed server leaves it."""
    streams, origin = Streams(), folder / "origin"
    storage = open_acid(origin, shard_count)
    commit(storage, *streams.first())
    storage.close()
    storage = open_acid(origin, shard_count)
    for change in streams.second():
        commit(storage, change)
    shutil.copytree(origin, folder / "store")
    storage.close()
    return folder / "store"


def make_files(folder: Path) -> Path:
    """A store of the file modes, as a killed server leaves it."""
    streams, origin = Streams(), folder / "origin"
    storage = open_files(origin)
    for change in streams.first() + streams.second():
        commit(storage, change)
    for number in range(8):
        commit(storage, (streams.mortal.write(b"%d" % number * 100),))
    shutil.copytree(origin, folder / "store")
    storage.close()
    return folder / "store"


def journal_file(store: Path) -> Path:
    [path] = (store / "journal").iterdir()
    return path


def flip(path: Path, position: int) -> None:
    """Damage one byte."""
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


class Checked(Struct):
    """What a check wrote down."""

    damages: list[str] = []
    remarks: list[str] = []
    tally: Tally = field(default_factory=Tally)

    @property
    def sound(self) -> bool:
        return not self.damages


def inspect(store: Path, shard_count: int = 1) -> Checked:
    """Check an acid store in this process. Not for LMDB files whose pages are damaged: those may end it."""
    return _checked(store, lambda notebook: check_acid(store, shard_count, notebook))


def inspect_files(store: Path) -> Checked:
    """Check a store of the file modes in this process."""
    return _checked(store, lambda notebook: check_files(store, notebook))


def _checked(store: Path, check: Callable[[Notebook], None]) -> Checked:
    checked = Checked()

    def write(message: object) -> None:
        match message:
            case Damage():
                checked.damages.append(str(message))
            case Remark():
                checked.remarks.append(message.text)
            case other:
                assert isinstance(other, Position)

    notebook = Notebook(store, write)
    check(notebook)
    checked.tally = notebook.tally
    return checked


class Rows:
    """The rows of a shard, to be changed behind the store's back, with their checksums right."""

    def __init__(self, env: lmdb.Environment, transaction: lmdb.Transaction) -> None:
        self._env = env
        self._transaction = transaction

    def _database(self, name: str) -> "lmdb._Database":
        return self._env.open_db(name.encode(), txn=self._transaction, create=False)

    def put(self, database: str, key: bytes, value: bytes) -> None:
        self._transaction.put(key, seal(key, value), db=self._database(database))

    def damage(self, database: str, key: bytes) -> None:
        """Change a value without its checksum."""
        sealed = bytes(self._transaction.get(key, b"", db=self._database(database)))
        assert sealed, "there was no such row"
        self._transaction.put(key, b"?" + sealed[1:], db=self._database(database))

    def get(self, database: str, key: bytes) -> bytes:
        return bytes(self._transaction.get(key, b"", db=self._database(database)))[:-4]

    def delete(self, database: str, key: bytes) -> None:
        assert self._transaction.delete(key, db=self._database(database)), "there was no such row"


def dump(store: Path) -> list[tuple[bytes, bytes, bytes]]:
    """Every row of a shard, as a reader would find it."""
    with lmdb.open(str(store / "shard-000"), readonly=True, lock=False, max_dbs=16) as env, env.begin() as transaction:
        names = [bytes(name) for name, _ in transaction.cursor()]
        databases = [(name, env.open_db(name, txn=transaction, create=False)) for name in names]
        return [
            (name, bytes(key), bytes(value))
            for name, database in databases
            for key, value in transaction.cursor(database)
        ]


@contextmanager
def rows(store: Path) -> Iterator[Rows]:
    env = lmdb.open(str(store / "shard-000"), max_dbs=16, map_size=1 << 30)
    with env.begin(write=True) as transaction:
        yield Rows(env, transaction)
    env.close()
