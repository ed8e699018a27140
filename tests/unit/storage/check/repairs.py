"""Stores to be repaired: what they hold, how they are damaged, and what is read of them afterwards."""

from pathlib import Path

from msgspec import Struct

from everbrook.protocol import Head
from everbrook.storage import ACID, FILE_DURABLE, DurableStorage, StorageTuning
from everbrook.storage.check import Findings, Progress, Report, StoreCheck
from everbrook.storage.check.repair import Repair
from everbrook.storage.check.report import Inspect, read_store
from tests.kit.damage import flip
from tests.kit.drafts import NOW, Draft
from tests.kit.stores import BOOT, JOURNAL, LARGE, commit, inspect, make_store, open_acid, open_files

SALT = 7
TEXT, JSON, FORK, MORTAL, LONG = 1, 2, 3, 4, 7
JOURNAL_NAME = "journal-00000000000000000027-00000003-65536.log"
"""The file of the journal that every store here has."""
LONG_TEXT = b"".join(b"%02d" % number * 40 for number in range(20))
SMALL = StorageTuning(journal=JOURNAL, chunk_bytes=200, segment_bytes=700, small_chunk_bytes=80)
WHOLE = {
    b"text": b"first" + LARGE + b"again",
    b"json": b'1,"two",3,4,5,',
    b"fork": b"of the fork more",
    b"mortal": b"soon over",
    b"long": LONG_TEXT,
    b"new": b"the last one",
}


def make_killed(folder: Path, store: str) -> Path:
    """Make a store that was killed, in a folder of that name."""
    mode = ACID if store == "acid" else FILE_DURABLE
    return make_store(folder / "made", mode).rename(folder / store)


def open_again(store: Path) -> DurableStorage:
    """Open a store by its folder's name."""
    return open_acid(store) if store.name == "acid" else open_files(store)


def damage_bytes(store: Path, content: bytes) -> None:
    """Flip a byte of what is stored of a stream, in the base or in a segment."""
    places = [store / "base" / "data.mdb", *(store / "streams").rglob("*.log")]
    flipped = 0
    for path in places:
        data, position = path.read_bytes(), -1
        while (position := data.find(content, position + 1)) >= 0:
            flip(path, position + 1)
            flipped += 1
    assert flipped


def ruin(store: Path, damage: str) -> None:
    """Make the file of LMDB unreadable."""
    file = store / "base" / "data.mdb"
    data = file.read_bytes()
    if damage == "gone":
        file.unlink()
    elif damage == "short":
        file.write_bytes(data[: 3 * 4096])
    elif damage == "zeros":
        file.write_bytes(data[: 2 * 4096] + bytes(len(data) - 2 * 4096))
    else:
        file.write_bytes(b"nothing of the kind" * 1000)


def no_progress(_read_bytes: int, _total_bytes: int) -> None:
    pass


def read_here(store: Path, _progress: Progress, _inspect: Inspect, boot: str) -> Report:
    """Check a store in this process, which is faster."""
    report = Report(store, "")
    StoreCheck(store, Findings(store, report.enter), boot).run()
    return report


def repair(store: Path, *, drop: bool = False, process: bool = False) -> list[str]:
    """Repair a store that is damaged, and see that it is whole. `process`: its base may end the one that reads it."""
    repairing = Repair(store, now=NOW, salt=SALT, boot=BOOT, tuning=SMALL, read=read_store if process else read_here)
    try:
        report = repairing.check(no_progress)
        lines = [] if report.sound else list(repairing.run(report, no_progress, drop=drop))
    finally:
        repairing.close()
    assert inspect(store).damages == []
    return lines


class Stream(Struct):
    """A stream as a server shows it."""

    head: Head
    data: bytes
    times: list[int]


def streams_of(store: Path) -> dict[bytes, Stream]:
    """Read everything as a server does, which takes changes."""
    storage = open_again(store)
    try:
        assert (storage.refusal, storage.damaged_streams) == (None, 0)
        found = {}
        for name, head in storage.scan(b"", b"", 100):
            assert head
            record = storage.load(name)
            assert record
            assert record.head == head
            incarnation, first = head.identity.incarnation, max(head.identity.first_own_offset, head.kept.earliest)
            data = storage.read(incarnation, first, head.tail) if first < head.tail else b""
            messages = storage.messages(incarnation, first, head.tail)
            assert list(messages.ends)[-1:] == ([head.tail] if data else [])
            found[name] = Stream(head, data, list(messages.times))
        assert storage.count(b"") == len(found)
        commit(storage, (Draft(b"after the repair", storage.last_incarnation + 1).write(b"it goes on"),))
        return found
    finally:
        storage.close()


def contents(store: Path) -> dict[bytes, bytes]:
    return {name: stream.data for name, stream in streams_of(store).items()}


def lost_files(store: Path) -> list[str]:
    return sorted(path.name for path in (store / "lost+found").rglob("*") if path.is_file())
