"""Checking an acid store: what is whole verifies, and what is not is found, with its place."""

import os
import random
import shutil
import signal
import struct
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from everbrook.storage import StoreError, check, check_store
from everbrook.storage.acid.rows import INCARNATION, PLACE
from everbrook.storage.check import find_stores
from everbrook.storage.manifest import Manifest
from everbrook.storage.packing import pack_change
from everbrook.storage.record import FRAME, LOG_HEADER, frame, parse_log_header, records
from tests.storage.checking import (
    LARGE,
    Rows,
    Streams,
    commit,
    dump,
    flip,
    inspect,
    journal_file,
    make_store,
    open_acid,
    rows,
)
from tests.storage.drafts import Draft

PAGE_BYTES = 4096


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store that was killed, and of the one that it was copied from and that was closed."""
    folder = tmp_path_factory.mktemp("made")
    make_store(folder)
    return folder


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """A store that was killed, for one test to damage."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "store"


def no_progress(_read_bytes: int, _total_bytes: int) -> None:
    pass


# What is whole


@pytest.mark.parametrize("shard_count", [1, 4])
def test_a_store_that_was_killed_verifies(tmp_path: Path, shard_count: int) -> None:
    checked = inspect(make_store(tmp_path, shard_count), shard_count)
    assert (checked.damages, checked.remarks) == ([], [])
    assert (checked.tally.streams, checked.tally.records) == (5, 4)


@pytest.mark.parametrize("shard_count", [1, 4])
def test_a_store_that_was_closed_verifies(tmp_path: Path, shard_count: int) -> None:
    make_store(tmp_path, shard_count)
    checked = inspect(tmp_path / "origin", shard_count)
    assert (checked.damages, checked.remarks) == ([], [])
    own = sum(map(len, (b"firstagain", LARGE, b'1,"two",3,4,5,', b"of the fork more", b"soon over", b"the last one")))
    assert (checked.tally.streams, checked.tally.stream_bytes, checked.tally.records) == (5, own, 0)


def test_a_store_that_was_only_just_made_verifies(tmp_path: Path) -> None:
    open_acid(tmp_path).close()
    assert inspect(tmp_path).sound


def test_shards_that_a_crash_left_at_different_points_verify(tmp_path: Path) -> None:
    store = make_store(tmp_path, shard_count=4)
    for number in (0, 2):
        shutil.rmtree(store / f"shard-{number:03d}")
        shutil.copytree(tmp_path / f"origin/shard-{number:03d}", store / f"shard-{number:03d}")
    checked = inspect(store, shard_count=4)
    assert checked.damages == []
    assert checked.remarks == ["a crash came between two shards; the journal brings the one up to the other"]
    assert checked.tally.streams == 5


# The journal


def test_every_flipped_byte_of_a_journal_is_found(store: Path) -> None:
    path = journal_file(store)
    whole = path.read_bytes()
    salt, _ = parse_log_header(whole) or (0, 0)
    *_, last = records(whole, salt)
    for position in range(len(whole)):
        flip(path, position)
        checked = inspect(store)
        if position < last.position:
            assert any(damage.startswith(f"journal/{path.name} ") for damage in checked.damages), position
        else:
            assert (checked.damages, len(checked.remarks)) == ([], 1), position
        path.write_bytes(whole)


def test_damage_is_reported_with_its_position(store: Path) -> None:
    path = journal_file(store)
    first = LOG_HEADER.size
    flip(path, first + FRAME.size)
    assert f"journal/{path.name} at byte {first}: records 7 to 7 are missing" in inspect(store).damages


def test_a_tail_that_a_crash_cut_off_anywhere_is_told_and_fine(store: Path) -> None:
    path = journal_file(store)
    whole = path.read_bytes()
    salt, _ = parse_log_header(whole) or (0, 0)
    *_, last = records(whole, salt)
    for end in range(last.position + 1, len(whole)):
        path.write_bytes(whole[:end])
        checked = inspect(store)
        assert (checked.damages, checked.tally.records) == ([], 3)
        assert checked.remarks[0].startswith(
            f"{path.name} ends with {end - last.position} bytes of a write that a crash"
        )


def test_a_file_that_was_only_begun_is_told_and_fine(store: Path) -> None:
    (store / "journal" / "journal-00000000000000000011.log").write_bytes(b"EBL1\x07")
    checked = inspect(store)
    assert checked.damages == []
    assert "it holds nothing yet" in checked.remarks[0]


def test_a_file_of_the_journal_that_is_gone_is_missed(store: Path) -> None:
    """Only what comes after it can tell."""
    storage = open_acid(store)
    storage.persist([(Streams().mortal.write(b"one more"),)])
    files = sorted((store / "journal").iterdir())
    shutil.copytree(store, store.parent / "copy")
    storage.close()
    (store.parent / "copy" / "journal" / files[0].name).unlink()
    assert "records 7 to 10 are nowhere" in inspect(store.parent / "copy").damages[0]


def test_a_tail_cut_off_an_ended_file_is_damage(store: Path) -> None:
    """A file that follows proves that all before it was on the disk."""
    path = journal_file(store)
    storage = open_acid(store)
    commit(storage, (Streams().mortal.write(b"one more"),))
    shutil.copytree(store, store.parent / "copy")
    storage.close()
    cut = store.parent / "copy" / "journal" / path.name
    cut.write_bytes(cut.read_bytes()[:-1])
    assert any("bytes are no record" in damage for damage in inspect(store.parent / "copy").damages)


def test_a_file_set_aside_by_a_server_is_damage(store: Path) -> None:
    journal_file(store).with_suffix(".damaged").write_bytes(b"x")
    assert "was set aside when a server found it damaged" in inspect(store).damages[0]


# LMDB: flipped bytes


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(LARGE[:200], id="chunk"),
        pytest.param(b'1,"two",', id="small chunk"),
        pytest.param(b"text/plain; charset=utf-8", id="stream"),
        pytest.param(b"some-producer", id="producer"),
    ],
)
def test_a_flipped_byte_of_what_is_stored_is_found(store: Path, content: bytes) -> None:
    file = store / "shard-000" / "data.mdb"
    data = file.read_bytes()
    places = [place for place in range(len(data)) if data.startswith(content, place)]
    assert places
    for place in places[:3]:
        flip(file, place + 2)
    assert not inspect(store).sound


def test_a_damaged_chunk_is_named_by_its_stream_and_offset(store: Path) -> None:
    file = store / "shard-000" / "data.mdb"
    flip(file, file.read_bytes().index(b"of the fork"))
    place = PLACE.pack(3, 5).hex()
    assert (
        f"shard-000/data.mdb database chunks key {place}: the checksum of its value is wrong" in inspect(store).damages
    )


@pytest.mark.parametrize("seed", range(10))
def test_a_damaged_page_is_found_or_changes_nothing(store: Path, seed: int) -> None:
    """LMDB trusts its pages: reading damaged ones may end the process that does."""
    file, whole, chance = store / "shard-000" / "data.mdb", dump(store), random.Random(seed)
    data = file.read_bytes()
    used = [start for start in range(0, len(data), PAGE_BYTES) if any(data[start + 16 : start + PAGE_BYTES])]
    for page in chance.sample(used, seed % 4 + 1):
        flip(file, page + chance.randrange(48))
    report = check_store(store, no_progress)
    assert not report.sound or dump(store) == whole


def test_pages_of_zeros_are_found(store: Path) -> None:
    file = store / "shard-000" / "data.mdb"
    file.write_bytes(file.read_bytes()[: 2 * PAGE_BYTES] + bytes(file.stat().st_size - 2 * PAGE_BYTES))
    assert not check_store(store, no_progress).sound


def test_an_lmdb_file_that_is_cut_off_is_found(store: Path) -> None:
    file = store / "shard-000" / "data.mdb"
    file.write_bytes(file.read_bytes()[: 5 * PAGE_BYTES])
    assert not check_store(store, no_progress).sound


def test_an_lmdb_file_that_is_none_is_found(store: Path) -> None:
    (store / "shard-000" / "data.mdb").write_bytes(b"nothing of the kind" * 1000)
    [damage] = check_store(store, no_progress).damages[:1]
    assert str(damage) == "shard-000/data.mdb: it is not a file of LMDB"


def test_a_reader_that_dies_of_the_damage_is_damage_where_it_was(store: Path) -> None:
    report = check_store(store, no_progress, die)
    assert str(report.damages[0]) == "here: so damaged that reading it ended the reader with SIGSEGV"


def die(_folder: Path, _manifest: Manifest, outgoing: Connection) -> None:
    outgoing.send(check.Position("here", 1))
    os.kill(os.getpid(), signal.SIGSEGV)


# LMDB: rows that verify and do not fit

TEXT, JSON, FORK, MORTAL = (INCARNATION.pack(number) for number in (1, 2, 3, 4))
FIRST_CHUNK = PLACE.pack(1, 0)
NEW = INCARNATION.pack(77)


@pytest.mark.parametrize(
    "change, problem",
    [
        (lambda rows: rows.delete("names", b"text"), "its name does not lead to it"),
        (lambda rows: rows.put("names", b"text", JSON), "it leads to stream 0000000000000002, which is not it"),
        (lambda rows: rows.put("names", b"text", b"1"), "the row can't be read"),
        (lambda rows: rows.delete("streams", TEXT), "its stream is missing"),
        (lambda rows: rows.put("streams", TEXT, rows.get("streams", TEXT)[:-1]), "its row can't be read"),
        (lambda rows: rows.put("streams", TEXT, rows.get("streams", TEXT) + b"x"), "its row can't be read"),
        (lambda rows: rows.put("streams", NEW, rows.get("streams", TEXT)), "its row is under another stream's key"),
        (lambda rows: rows.put("streams", TEXT, rows.get("streams", FORK)), "its row is under another stream's key"),
        (lambda rows: rows.delete("chunks", FIRST_CHUNK), "its first bytes are missing"),
        (lambda rows: rows.delete("chunks", FIRST_CHUNK), "an index without its chunk"),
        (lambda rows: rows.delete("chunks", PLACE.pack(1, 5)), "its bytes end at 5, its tail is 307205"),
        (lambda rows: rows.put("chunks", FIRST_CHUNK, b"fir"), "a chunk that should begin at 3"),
        (lambda rows: rows.put("chunks", b"key", b""), "the row can't be read"),
        (lambda rows: rows.delete("indexes", FIRST_CHUNK), "its index does not fit it: it has none"),
        (lambda rows: rows.put("indexes", FIRST_CHUNK, bytes(11)), "its index does not fit it"),
        (lambda rows: rows.put("indexes", FIRST_CHUNK, index([5], [], [])), "its counts do not add up"),
        (lambda rows: rows.put("indexes", FIRST_CHUNK, index([4], [], [1])), "its messages do not fill the chunk"),
        (lambda rows: rows.put("indexes", FIRST_CHUNK, index([3, 2, 5], [5], [1])), "its messages do not fill"),
        (lambda rows: rows.put("indexes", FIRST_CHUNK, index([2, 5], [3, 5], [1, 1])), "its appends do not end where"),
        (lambda rows: rows.put("indexes", FIRST_CHUNK, index([5], [9], [1])), "it does not go on with the append"),
        (lambda rows: rows.put("producers", TEXT + b"p", b""), "its row can't be read"),
        (lambda rows: rows.put("producers", NEW + b"p", bytes(24)), "its stream is missing"),
        (lambda rows: rows.delete("forks", TEXT + FORK), "it is a fork that is not entered under its source"),
        (lambda rows: rows.put("forks", TEXT + JSON, b""), "stream 0000000000000002 is no fork of it"),
        (lambda rows: rows.put("forks", JSON + FORK, b""), "stream 0000000000000003 is no fork of it"),
        (lambda rows: rows.put("forks", TEXT, b""), "the row can't be read"),
        (lambda rows: rows.delete("mortal", MORTAL), "it can expire and is not among those that can"),
        (lambda rows: rows.put("mortal", TEXT, b""), "it is not a stream that can expire"),
        (lambda rows: rows.put("meta", b"applied", bytes(8)), "records 1 to 6 are nowhere"),
    ],
)
def test_rows_that_do_not_fit_together_are_found(store: Path, change: Callable[[Rows], None], problem: str) -> None:
    with rows(store) as changed:
        change(changed)
    assert any(problem in damage for damage in inspect(store).damages)


def index(messages: list[int], appends: list[int], times: list[int]) -> bytes:
    counts = (len(messages), len(appends), len(times))
    return struct.pack(f"<3I{counts[0]}I{counts[1]}I{counts[2]}Q", *counts, *messages, *appends, *times)


# Records that verify and do not fit


def test_a_record_that_does_not_go_on_where_its_stream_was_is_found(store: Path) -> None:
    lost = Streams()
    lost.first()
    lost.text.write(b"lost")
    add_record(store, pack_change((lost.text.write(b"after it"),)))
    assert "stream 0000000000000001: it does not go on where the stream ended" in inspect(store).damages[0]


def test_a_record_of_a_stream_that_nothing_created_is_found(store: Path) -> None:
    draft = Draft(b"who", 99)
    draft.write(b"lost")
    add_record(store, pack_change((draft.write(b"after it"),)))
    assert "it changes stream 0000000000000063, which nothing created" in inspect(store).damages[0]


def test_a_record_that_creates_a_stream_again_is_found(store: Path) -> None:
    add_record(store, pack_change((Draft(b"text", 1).write(b"anew"),)))
    assert "it creates stream 0000000000000001 again" in inspect(store).damages[0]


@pytest.mark.parametrize("body", [b"\x09", b"\x02", b"\x01" + bytes(20)])
def test_a_record_that_says_nothing_readable_is_found(store: Path, body: bytes) -> None:
    add_record(store, body)
    assert "record 11 can't be read, though its checksum is right" in inspect(store).damages[0]


def add_record(store: Path, body: bytes) -> None:
    path = journal_file(store)
    with path.open("ab") as file:
        file.write(frame(7, 11, 10, body))


# Finding stores


def test_stores_are_found_in_their_data_folder_and_by_themselves(store: Path) -> None:
    assert find_stores(store) == [store]
    assert find_stores(store.parent) == [store.parent / "origin", store]


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no store"):
        find_stores(tmp_path)
    with pytest.raises(StoreError, match="is not a folder"):
        find_stores(tmp_path / "none")


def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    storage = open_acid(tmp_path)
    with pytest.raises(StoreError, match="is in use"):
        check_store(tmp_path, no_progress)
    storage.close()


def test_a_store_of_another_format_is_refused(store: Path) -> None:
    (store / "manifest.json").write_text('{"format":99,"mode":"acid","shard_count":1}')
    with pytest.raises(StoreError, match="has format 99; this version reads format 1"):
        check_store(store, no_progress)


def test_a_damaged_manifest_is_damage(store: Path) -> None:
    (store / "manifest.json").write_text("{")
    assert not check_store(store, no_progress).sound


def test_progress_goes_up_to_all_of_it(store: Path) -> None:
    seen: list[tuple[int, int]] = []
    check_store(store, lambda read_bytes, total_bytes: seen.append((read_bytes, total_bytes)))
    size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    assert seen == sorted(seen)
    assert seen[-1] == (size, size)
