"""Repairing a store: streams keep what is before the damage, under a new incarnation."""

import shutil
from pathlib import Path

import pytest

from everbrook.storage.base_rows import INCARNATION
from everbrook.storage.journal_scan import parse_log_file
from everbrook.storage.segments import segment_path
from tests.kit.damage import flip
from tests.kit.drafts import NOW, Draft
from tests.kit.stores import LARGE, Streams, commit, inspect, journal_file, open_acid, rows
from tests.unit.storage.check.repairs import (
    FORK,
    JOURNAL_NAME,
    JSON,
    LONG,
    LONG_TEXT,
    SALT,
    WHOLE,
    contents,
    damage_bytes,
    lost_files,
    make_killed,
    open_again,
    repair,
    streams_of,
)


@pytest.fixture(params=["acid", "file"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return make_killed(tmp_path, request.param)


# The journal


def clear_records(store: Path, *numbers: int) -> None:
    """Make records zeros, frames too, so that nobody knows what they were about."""
    file = parse_log_file(journal_file(store))
    assert file
    data = bytearray(file.path.read_bytes())
    for item in file.scan(bytes(data), SALT):
        if item.number in numbers:
            data[item.position : item.end] = bytes(item.end - item.position)
    file.path.write_bytes(data)


def damage_record(store: Path, number: int) -> None:
    """Flip the last byte of a record."""
    file = parse_log_file(journal_file(store))
    assert file
    found = file.scan(file.path.read_bytes(), SALT)
    record = next(item for item in found if item.number == number)
    flip(file.path, record.end - 1)


def test_streams_that_lost_a_change_are_cut_before_it(store: Path) -> None:
    before = {FORK: Streams().fork.head.identity, JSON: Streams().json.head.identity}
    damage_record(store, 28)
    lines = repair(store)
    assert "stream 'json' ends at offset 8 now, it was 8" in lines
    streams = streams_of(store)
    cut = {b"json": b'1,"two",', b"fork": b"of the fork"}
    assert {name: stream.data for name, stream in streams.items()} == WHOLE | cut
    for name in (b"json", b"fork"):
        assert streams[name].head.identity.incarnation not in before
    assert JOURNAL_NAME in lost_files(store)


def test_a_store_whose_journal_lost_changes_of_unknown_streams_takes_changes_again(store: Path) -> None:
    clear_records(store, 27, 28)
    assert inspect(store).refusals
    lines = repair(store)
    assert "the readable changes of the journal are in the base, and the store takes changes again" in lines
    cut = {b"text": b"first" + LARGE, b"json": b'1,"two",', b"fork": b"of the fork"}
    assert contents(store) == WHOLE | cut
    assert JOURNAL_NAME in lost_files(store)


@pytest.mark.parametrize("damage", ["missing", "short", "folder"])
def test_a_store_that_lost_files_of_its_journal_takes_changes_again(store: Path, damage: str) -> None:
    path = journal_file(store)
    if damage == "missing":
        path.unlink()
    elif damage == "short":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        shutil.rmtree(store / "journal")
    repair(store)
    lost = {b"text": b"first" + LARGE, b"json": b'1,"two",', b"fork": b"of the fork", b"gone": b"dropped later"}
    there = WHOLE if damage == "short" else {name: data for name, data in (WHOLE | lost).items() if name != b"new"}
    assert contents(store) == there


# Bytes


def test_a_stream_with_damaged_bytes_keeps_what_is_before_them(store: Path) -> None:
    """The last messages before the damage are in the same chunk."""
    damage_bytes(store, LONG_TEXT[960:1040])
    assert inspect(store).streams[LONG].offset <= 960
    repair(store)
    streams = streams_of(store)
    long = streams.pop(b"long")
    # A chunk of the acid store is one block, of which nothing verifies.
    assert long.data == (b"" if store.name == "acid" else LONG_TEXT[:960])
    assert long.times == [NOW + 1 + number for number in range(len(long.data) // 80)]
    assert long.head.identity.incarnation > NOW
    assert {name: stream.data for name, stream in streams.items()} == {n: d for n, d in WHOLE.items() if n != b"long"}
    [kept] = [name for name in lost_files(store) if name.startswith(f"stream-{LONG:016x}")]
    assert len((store / "lost+found" / kept).read_bytes()) == len(LONG_TEXT) - len(long.data)


def test_blocks_before_a_damaged_one_are_kept_up_to_a_message(acid: Path) -> None:
    storage, stream = open_acid(acid), Draft(b"blocks", 20)
    commit(storage, *((stream.write(b"%04d-" % number * 100),) for number in range(100)))
    storage.close()
    damage_bytes(acid, b"0070-" * 100)
    repair(acid)
    blocks = contents(acid)[b"blocks"]
    assert blocks == stream.data[: 4 * 8192 // 500 * 500]


def test_a_repaired_stream_takes_appends_and_is_read_again(store: Path) -> None:
    damage_bytes(store, LONG_TEXT[960:1040])
    repair(store)
    storage = open_again(store)
    record = storage.load(b"long")
    assert record
    draft = Draft(b"long", record.head.identity.incarnation)
    draft.write()
    draft.head = record.head
    for number in range(8):
        commit(storage, (draft.write(b"%02d" % number * 50),))
    storage.close()
    assert inspect(store).damages == []
    assert contents(store)[b"long"].endswith(draft.data)


def test_drop_deletes_damaged_streams_and_keeps_their_bytes_aside(store: Path) -> None:
    damage_bytes(store, LONG_TEXT[960:1040])
    lines = repair(store, drop=True)
    assert any(line.startswith("stream 'long' is deleted; stream-0000000000000007-from-0.bytes has") for line in lines)
    assert contents(store) == {name: data for name, data in WHOLE.items() if name != b"long"}


@pytest.mark.parametrize("damage", ["missing", "short", "header", "swapped"])
def test_segments_that_are_damaged_cost_what_is_in_them(files: Path, damage: str) -> None:
    path = segment_path(files / "streams", LONG, 320)
    if damage == "missing":
        path.unlink()
    elif damage == "short":
        path.write_bytes(path.read_bytes()[:100])
    elif damage == "header":
        flip(path, 5)
    else:
        shutil.copy(segment_path(files / "streams", LONG, 640), path)
    repair(files)
    assert contents(files) == WHOLE | {b"long": LONG_TEXT if damage == "header" else LONG_TEXT[:320]}


def test_a_batch_that_is_damaged_in_its_middle_is_cut_at_a_message(store: Path) -> None:
    """The next append is another batch, and the index says so."""
    storage, stream = open_again(store), Draft(b"batches", 20, json=True)
    for batch in range(3):
        commit(storage, (stream.write(*(b'"%04d-%d",' % (number, batch) * 20 for number in range(100))),))
    storage.close()
    damage_bytes(store, b'"0070-1",' * 20)
    repair(store)
    storage = open_again(store)
    record = storage.load(b"batches")
    assert record
    incarnation, tail = record.head.identity.incarnation, record.head.tail
    assert stream.data.startswith(storage.read(incarnation, 0, tail))
    assert tail in stream.boundaries
    assert 100 * 180 < tail < 170 * 180 + 1
    assert storage.index_at(incarnation, tail - 1).append_end(tail - 1) == tail
    assert storage.index_at(incarnation, 0).append_end(0) == 100 * 180
    stream.head = record.head
    commit(storage, (stream.write(b"1,", b"2,"),))
    storage.close()
    assert inspect(store).damages == []


# Forks


def fork_of_a_fork(store: Path) -> None:
    """Add a fork that inherits much of `long`, and one that inherits little of it."""
    storage, streams = open_again(store), Streams()
    streams.first()
    late = Draft(b"late", 30, source=streams.long, offset=1200)
    later = Draft(b"later", 31, source=late, offset=1203)
    latest = Draft(b"latest", 33, source=later, offset=1206)
    early = Draft(b"early", 32, source=streams.long, offset=160)
    for draft in (late, later, latest, early):
        commit(storage, (draft.write(b"own bytes"),))
    storage.close()


def test_forks_of_a_cut_stream_are_cut_if_they_need_what_is_lost(files: Path) -> None:
    fork_of_a_fork(files)
    damage_bytes(files, LONG_TEXT[960:1040])
    lines = repair(files)
    streams = streams_of(files)
    long, late, later, early = (streams[name].head for name in (b"long", b"late", b"later", b"early"))
    assert (long.tail, late.tail, later.tail, early.tail) == (960, 960, 960, 169)
    assert streams[b"latest"].head.tail == 960
    assert early.identity.incarnation == 32
    assert streams[b"early"].data == b"own bytes"
    for fork, source in ((late, long), (early, long), (later, late)):
        assert fork.identity.fork
        assert fork.identity.fork.source_incarnation == source.identity.incarnation
    assert any(line.startswith("stream 'late' ends at offset 960 now, it was 1209") for line in lines)


@pytest.mark.parametrize("lost", ["row", "drop"])
def test_forks_of_a_lost_stream_keep_their_own_bytes(store: Path, lost: str) -> None:
    fork_of_a_fork(store)
    if lost == "row":
        with rows(store) as changed:
            changed.damage("streams", INCARNATION.pack(LONG))
    else:
        damage_bytes(store, LONG_TEXT[960:1040])
    lines = repair(store, drop=lost == "drop")
    assert any("stream 'late' begins at offset 1200 now" in line for line in lines) or lost == "drop"
    streams = streams_of(store)
    assert b"long" not in streams
    late = streams[b"late"]
    assert (late.data, late.head.kept.earliest, late.head.identity.fork) == (b"own bytes", 1200, None)
    assert streams[b"later"].data == b"own bytes"
