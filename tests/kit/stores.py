"""Stores to be checked: with some of everything in them, damaged on purpose, and checked in this process."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb
from msgspec import Struct, field
from msgspec.structs import replace

from everbrook.protocol import Change, Producer
from everbrook.storage import (
    ACID,
    FILE_DURABLE,
    DurableMode,
    DurableStorage,
    JournalTuning,
    OsDisk,
    Storage,
    StorageTuning,
)
from everbrook.storage.base_rows import seal
from everbrook.storage.check import DamagedStream, Findings, Report, StoreCheck, Tally
from tests.kit.drafts import Draft

LARGE = bytes(range(256)) * 1200
BOOT = "this boot"
# Small enough for a folder in memory.
JOURNAL = JournalTuning(first_file_bytes=1 << 16, max_file_bytes=1 << 18)


def open_store(folder: Path, mode: DurableMode = ACID, boot: str = BOOT, **sizes: int) -> DurableStorage:
    tuning = StorageTuning(journal=JOURNAL, **sizes)
    return DurableStorage(OsDisk(), folder, mode, salt=7, boot=boot, tuning=tuning)


def open_acid(folder: Path) -> DurableStorage:
    return open_store(folder, ACID)


def open_files(folder: Path, mode: DurableMode = FILE_DURABLE) -> DurableStorage:
    """Open a store whose segments are so small that most streams have some."""
    return open_store(folder, mode, chunk_bytes=200, segment_bytes=700, small_chunk_bytes=80)


def commit(storage: Storage, *group: Change) -> None:
    """Make a group durable, then visible."""
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
        self.long = Draft(b"long", 7)

    def first(self) -> list[Change]:
        producer = (b"some-producer", Producer(epoch=1, seq=2, seen_at=3))
        return [
            (self.text.write(b"first"),),
            (self.text.write(LARGE, producer=producer),),
            (self.json.write(b"1,", b'"two",'),),
            (self.fork.write(b"of the fork"),),
            (self.mortal.write(b"soon over"),),
            (self.gone.write(b"dropped later"),),
            *((self.long.write(b"%02d" % number * 40),) for number in range(20)),
        ]

    def second(self) -> list[Change]:
        return [
            (self.text.write(b"again", closed=True),),
            (self.json.write(b"3,", b"4,", b"5,"), self.fork.write(b" more")),
            (self.gone.drop(),),
            (Draft(b"new", 8).write(b"the last one"),),
        ]


def make_store(folder: Path, mode: DurableMode = ACID) -> Path:
    """A store with one part in the base and the other in the journal, as a killed server leaves it.

    The one beside it, `origin`, was closed.
    """
    opened = open_acid if mode is ACID else open_files
    streams, origin = Streams(), folder / "origin"
    storage = opened(origin)
    commit(storage, *streams.first())
    storage.close()
    storage = opened(origin)
    for change in streams.second():
        commit(storage, change)
    storage.seal()
    shutil.copytree(origin, folder / "store")
    storage.close()
    return folder / "store"


def journal_file(store: Path) -> Path:
    """The file of the journal that is written to."""
    return max(path for path in (store / "journal").iterdir() if path.name != "spare.log")


class Checked(Struct):
    """What a check wrote down."""

    damages: list[str] = []
    remarks: list[str] = []
    refusals: list[str] = []
    streams: dict[int, DamagedStream] = {}
    tally: Tally = field(default_factory=Tally)

    @property
    def sound(self) -> bool:
        return not self.damages


def inspect(store: Path, boot: str = BOOT) -> Checked:
    """Check a store in this process. Not for LMDB files whose pages are damaged: those may end it."""
    report = Report(store, "")
    findings = Findings(store, report.enter)
    StoreCheck(store, findings, boot).run()
    return Checked(
        [str(damage) for damage in report.damages],
        [remark.text for remark in report.remarks],
        [refusal.text for refusal in report.refusals],
        report.streams,
        findings.tally,
    )


class Rows:
    """The rows of the base, to be changed behind the store's back, with their checksums right."""

    def __init__(self, env: lmdb.Environment, transaction: lmdb.Transaction) -> None:
        self._env = env
        self._transaction = transaction

    def _database(self, name: str) -> "lmdb._Database":
        return self._env.open_db(name.encode(), txn=self._transaction, create=False)

    def put(self, database: str, key: bytes, value: bytes) -> None:
        self._transaction.put(key, seal(key, value), db=self._database(database))

    def put_raw(self, database: str, key: bytes, value: bytes) -> None:
        self._transaction.put(key, value, db=self._database(database))

    def damage(self, database: str, key: bytes) -> None:
        """Change a value without its checksum."""
        sealed = self.get_raw(database, key)
        assert sealed, "there was no such row"
        self._transaction.put(key, bytes((sealed[0] ^ 0x10,)) + sealed[1:], db=self._database(database))

    def get_raw(self, database: str, key: bytes) -> bytes:
        return bytes(self._transaction.get(key, b"", db=self._database(database)))

    def get(self, database: str, key: bytes) -> bytes:
        return self.get_raw(database, key)[:-4]

    def keys(self, database: str) -> list[bytes]:
        cursor = self._transaction.cursor(self._database(database))
        return [bytes(key) for key in cursor.iternext(keys=True, values=False)]

    def delete(self, database: str, key: bytes) -> None:
        assert self._transaction.delete(key, db=self._database(database)), "there was no such row"


def dump(store: Path) -> list[tuple[bytes, bytes, bytes]]:
    """Every row of the base, as a reader would find it."""
    with lmdb.open(str(store / "base"), readonly=True, lock=False, max_dbs=16) as env, env.begin() as transaction:
        names = [bytes(name) for name, _ in transaction.cursor()]
        databases = [(name, env.open_db(name, txn=transaction, create=False)) for name in names]
        return [
            (name, bytes(key), bytes(value))
            for name, database in databases
            for key, value in transaction.cursor(database)
        ]


@contextmanager
def rows(store: Path) -> Iterator[Rows]:
    env = lmdb.open(str(store / "base"), max_dbs=16, map_size=1 << 40)
    with env.begin(write=True) as transaction:
        yield Rows(env, transaction)
    env.close()
