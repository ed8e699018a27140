"""Checking a store: what is whole verifies, and what is not is found, with its place and its streams."""

import os
import random
import shutil
import signal
import struct
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from msgspec.structs import replace

from everbrook.storage import FILE_FAST, StoreError, check_store
from everbrook.storage.base_rows import INCARNATION, PLACE
from everbrook.storage.check import WalkedOpening, find_stores, walk_base
from everbrook.storage.check.report import ReadProgress
from everbrook.storage.codec import pack_change, pack_head, pack_identity
from everbrook.storage.journal_scan import parse_log_file
from everbrook.storage.record import Framer, Record, Unreadable, seed_of
from tests.kit.damage import flip
from tests.kit.drafts import Draft
from tests.kit.stores import (
    BOOT,
    LARGE,
    Rows,
    Streams,
    commit,
    dump,
    inspect,
    journal_file,
    make_store,
    open_acid,
    open_files,
    rows,
)

PAGE_BYTES = 4096
SALT = 7


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


def records(store: Path) -> list[Record | Unreadable]:
    """What the current file of the journal holds."""
    file = parse_log_file(journal_file(store))
    assert file
    return list(file.scan(file.path.read_bytes(), SALT))


def clear(path: Path, start: int, end: int) -> None:
    """Make bytes zeros, as if they had never been written."""
    data = path.read_bytes()
    path.write_bytes(data[:start] + bytes(end - start) + data[end:])


# What is whole


def test_a_store_that_was_killed_verifies(store: Path) -> None:
    checked = inspect(store)
    assert (checked.damages, checked.remarks, checked.refusals) == ([], [], [])
    assert (checked.tally.streams, checked.tally.records) == (6, 4)


def test_a_store_that_was_closed_verifies(made: Path) -> None:
    checked = inspect(made / "origin")
    assert (checked.damages, checked.remarks) == ([], [])
    texts = (
        b"firstagain",
        LARGE,
        b'1,"two",3,4,5,',
        b"of the fork more",
        b"soon over",
        b"the last one",
        bytes(20 * 80),
    )
    assert (checked.tally.streams, checked.tally.records) == (6, 0)
    assert checked.tally.stream_bytes == sum(map(len, texts))


def test_a_store_that_was_only_just_made_verifies(tmp_path: Path) -> None:
    open_acid(tmp_path).close()
    assert inspect(tmp_path).sound


@pytest.mark.parametrize("left", [("manifest.json",), ("manifest.json", "base/lock.mdb")])
def test_a_store_that_a_crash_kept_from_being_made_verifies(store: Path, tmp_path: Path, left: tuple[str, ...]) -> None:
    for name in left:
        (tmp_path / "new" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(store / name, tmp_path / "new" / name)
    assert inspect(tmp_path / "new").sound


# The journal


def test_every_flipped_byte_of_a_journal_is_found_or_does_no_harm(store: Path) -> None:
    path, whole = journal_file(store), journal_file(store).read_bytes()
    harmless = 0
    for position in range(records(store)[-1].end):
        flip(path, position)
        checked = inspect(store)
        assert checked.damages or checked.tally.records == 4, position
        harmless += checked.sound
        path.write_bytes(whole)
    assert harmless < records(store)[-1].end / 2


def test_a_damaged_change_is_damage_to_the_streams_that_it_was_about(store: Path) -> None:
    second = records(store)[1]
    flip(journal_file(store), second.end - 1)
    checked = inspect(store)
    place = f"journal/{journal_file(store).name} at byte {second.position}"
    reason = "change 28 can't be read, and what follows it"
    assert checked.damages == [
        f"{place}: stream 'json' is readable up to offset 8 of 8: {reason}",
        f"{place}: stream 'fork' is readable up to offset 16 of 16: {reason}",
    ]
    assert (checked.tally.records, checked.refusals) == (3, [])


def test_changes_that_are_gone_are_damage_for_which_a_server_takes_no_more(store: Path) -> None:
    first, second, *_ = records(store)
    clear(journal_file(store), first.position, second.end)
    checked = inspect(store)
    assert checked.damages == [f"journal/{journal_file(store).name} at byte 0: changes 27 to 28 are missing"]
    assert "a server takes no changes: a part of the journal is lost" in checked.refusals[0]


def test_a_change_that_a_crash_cut_off_anywhere_is_told_and_fine(store: Path) -> None:
    path, (*_, last, seal) = journal_file(store), records(store)
    clear(path, seal.position, seal.end)
    whole = path.read_bytes()
    for end in range(last.position + 4, last.end - 4):
        clear(path, end, last.end)
        checked = inspect(store)
        assert (checked.damages, checked.tally.records) == ([], 3), end
        assert "bytes of a write that a crash cut off" in checked.remarks[0]
        path.write_bytes(whole)


def test_the_same_change_is_damage_if_a_seal_proves_it(store: Path) -> None:
    *_, last, _ = records(store)
    clear(journal_file(store), last.position + 30, last.end)
    assert not inspect(store).sound


def test_a_file_of_the_journal_that_is_gone_is_missed(store: Path) -> None:
    journal_file(store).unlink()
    [damage] = inspect(store).damages
    assert damage == "journal: file 3 is missing, with all changes after the last one that is left"


def test_a_file_of_the_journal_that_was_shortened_is_found(store: Path) -> None:
    path = journal_file(store)
    path.write_bytes(path.read_bytes()[:-1])
    [damage] = inspect(store).damages
    assert "it has 65535 of its 65536 bytes; the last changes may be lost" in damage


def test_a_journal_that_is_gone_is_found(store: Path) -> None:
    shutil.rmtree(store / "journal")
    checked = inspect(store)
    assert "journal: it is missing" in checked.damages
    assert "a server does not start: there is no journal" in checked.refusals


def test_what_an_unsynced_journal_lost_with_the_machine_is_no_damage(tmp_path: Path) -> None:
    streams, storage = Streams(), open_files(tmp_path / "origin", FILE_FAST)
    for change in streams.first():
        commit(storage, change)
    shutil.copytree(tmp_path / "origin", tmp_path / "store")
    storage.close()
    _, fourth, *_ = records(tmp_path / "store")
    clear(journal_file(tmp_path / "store"), fourth.position, fourth.end)
    assert not inspect(tmp_path / "store", BOOT).sound
    checked = inspect(tmp_path / "store", "the next boot")
    assert (checked.damages, checked.tally.records) == ([], 3)
    assert "the machine has been restarted" in checked.remarks[0]


def test_a_store_that_takes_no_changes_takes_none_after_the_next_start_either(store: Path) -> None:
    """The file that a start begins hides that the one before it is gone."""
    journal_file(store).unlink()
    for _ in range(2):
        storage = open_acid(store)
        assert storage.refusal
        storage.close()
    checked = inspect(store)
    assert "is missing, with all changes after the last one that is left" in checked.damages[0]
    assert "a server takes no changes" in checked.refusals[0]


# Marks


def test_a_stream_that_a_server_has_marked_is_named_with_its_offset(store: Path) -> None:
    flip(journal_file(store), records(store)[0].end - 1)
    storage = open_acid(store)
    assert storage.damaged_streams == 1
    storage.close()
    checked = inspect(store)
    [damage] = checked.damages
    assert damage.startswith("base/data.mdb damaged 0000000000000001: stream 'text' is readable up to offset 307205 of")
    assert list(checked.streams) == [1]


def test_the_mark_of_a_stream_that_the_journal_drops_is_not_told(store: Path) -> None:
    flip(journal_file(store), records(store)[0].end - 1)
    storage, streams = open_acid(store), Streams()
    for change in streams.first():
        assert change
    commit(storage, (streams.text.drop(),))
    shutil.copytree(store, store.parent / "copy")
    storage.close()
    assert not any("'text' is readable" in damage for damage in inspect(store.parent / "copy").damages)


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
    file = store / "base" / "data.mdb"
    data = file.read_bytes()
    places = [place for place in range(len(data)) if data.startswith(content, place)]
    assert places
    for place in places[:3]:
        flip(file, place + 2)
    assert not inspect(store).sound


def test_a_damaged_chunk_is_named_by_its_stream_and_offset(store: Path) -> None:
    file = store / "base" / "data.mdb"
    flip(file, file.read_bytes().index(b"of the fork"))
    place = f"base/data.mdb chunks {PLACE.pack(3, 5).hex()}"
    reason = "the checksum of a block is wrong"
    assert f"{place}: stream 'fork' is readable up to offset 5 of 21: {reason}" in inspect(store).damages


@pytest.mark.parametrize("seed", range(10))
def test_a_damaged_page_is_found_or_changes_nothing(store: Path, seed: int) -> None:
    """LMDB trusts its pages: reading damaged ones may end the process that does."""
    file, whole, chance = store / "base" / "data.mdb", dump(store), random.Random(seed)
    data = file.read_bytes()
    used = [start for start in range(0, len(data), PAGE_BYTES) if any(data[start + 16 : start + PAGE_BYTES])]
    for page in chance.sample(used, seed % 4 + 1):
        flip(file, page + chance.randrange(48))
    report = check_store(store, no_progress)
    assert not report.sound or dump(store) == whole


def test_pages_of_zeros_are_found(store: Path) -> None:
    file = store / "base" / "data.mdb"
    file.write_bytes(file.read_bytes()[: 2 * PAGE_BYTES] + bytes(file.stat().st_size - 2 * PAGE_BYTES))
    assert not check_store(store, no_progress).sound


def test_an_lmdb_file_that_is_cut_off_is_found(store: Path) -> None:
    file = store / "base" / "data.mdb"
    file.write_bytes(file.read_bytes()[: 5 * PAGE_BYTES])
    assert not check_store(store, no_progress).sound


def test_an_lmdb_file_that_is_none_is_found(store: Path) -> None:
    (store / "base" / "data.mdb").write_bytes(b"nothing of the kind" * 1000)
    [damage] = check_store(store, no_progress).damages[:1]
    assert str(damage) == "base/data.mdb: it is not a file of LMDB"


def test_a_reader_that_dies_of_the_damage_is_damage_where_it_was(store: Path) -> None:
    report = check_store(store, no_progress, inspect=die)
    assert str(report.damages[0]) == "here: so damaged that reading it ended the reader with SIGSEGV"


def die(_folder: Path, _boot: str, outgoing: Connection) -> None:
    outgoing.send(ReadProgress("here", 1))
    os.kill(os.getpid(), signal.SIGSEGV)


# LMDB: rows that verify and do not fit

TEXT, JSON, FORK, MORTAL = (INCARNATION.pack(number) for number in (1, 2, 3, 4))
FIRST_CHUNK = PLACE.pack(1, 0)
NEW = INCARNATION.pack(77)


@pytest.mark.parametrize(
    "change, problem",
    [
        (lambda rows: rows.delete("names", b"text"), "its name does not lead to it"),
        (lambda rows: rows.put("names", b"text", JSON), "leads to stream 0000000000000002, which is not it"),
        (lambda rows: rows.put("names", b"text", b"1"), "the row of name 'text' can't be read"),
        (lambda rows: rows.damage("names", b"text"), "the row of name 'text' can't be read"),
        (lambda rows: rows.delete("streams", TEXT), "its stream 0000000000000001 is missing"),
        (lambda rows: rows.damage("streams", TEXT), "stream 'text' is lost: its row can't be read"),
        (lambda rows: rows.put("streams", TEXT, rows.get("streams", TEXT)[:-1]), "its row can't be read"),
        (lambda rows: rows.put("streams", TEXT, rows.get("streams", TEXT) + b"x"), "its row can't be read"),
        (lambda rows: rows.put("streams", NEW, rows.get("streams", TEXT)), "its row is that of another stream"),
        (lambda rows: rows.put("streams", TEXT, rows.get("streams", FORK)), "its row is that of another stream"),
        (lambda rows: rows.delete("chunks", FIRST_CHUNK), "its first bytes are missing"),
        (lambda rows: rows.delete("chunks", FIRST_CHUNK), "an index without its chunk"),
        (lambda rows: rows.delete("chunks", PLACE.pack(1, 5)), "its bytes end at 5, its tail is 307205"),
        (lambda rows: rows.put_raw("chunks", FIRST_CHUNK, bytes(8)), "a chunk should begin at 3"),
        (lambda rows: rows.put_raw("chunks", FIRST_CHUNK, b"\x01junk"), "the row of a chunk can't be read"),
        (lambda rows: rows.put("chunks", b"key", b""), "the row can't be read"),
        (lambda rows: rows.delete("indexes", FIRST_CHUNK), "its index does not fit it: it is missing"),
        (lambda rows: rows.damage("indexes", FIRST_CHUNK), "its index does not fit it: it is missing"),
        (lambda rows: rows.put("indexes", FIRST_CHUNK, bytes(11)), "its index does not fit it"),
        (lambda rows: rows.put("indexes", FIRST_CHUNK, index([5], [], [])), "its counts do not add up"),
        (lambda rows: rows.put("indexes", FIRST_CHUNK, index([4], [], [1])), "its messages do not fill the chunk"),
        (lambda rows: rows.put("indexes", FIRST_CHUNK, index([3, 2, 5], [5], [1])), "its messages do not fill"),
        (lambda rows: rows.put("indexes", FIRST_CHUNK, index([2, 5], [3, 5], [1, 1])), "its appends do not end where"),
        (lambda rows: rows.put("indexes", FIRST_CHUNK, index([5], [9], [1])), "it does not continue the append"),
        (lambda rows: rows.put("producers", TEXT + b"p", b""), "the row of producer 'p' of stream"),
        (lambda rows: rows.put("producers", NEW + b"p", bytes(24)), "its stream is missing"),
        (lambda rows: rows.delete("forks", TEXT + FORK), "it is a fork that is not entered under its source"),
        (lambda rows: rows.put("forks", TEXT + JSON, b""), "stream 0000000000000002 is no fork of"),
        (lambda rows: rows.put("forks", JSON + FORK, b""), "stream 0000000000000003 is no fork of"),
        (lambda rows: rows.put("forks", TEXT, b""), "the row can't be read"),
        (lambda rows: rows.delete("mortal", MORTAL), "it has a lifetime or a retention policy, and no row in `mortal`"),
        (lambda rows: rows.put("mortal", TEXT, b""), "no stream with a lifetime or a retention policy"),
        (lambda rows: rows.put("meta", b"applied", bytes(8)), "changes 1 to 26 are missing"),
        (lambda rows: rows.damage("meta", b"applied"), "its row of 'applied' can't be read"),
        (lambda rows: rows.put("meta", b"opened", b"{"), "how the store was opened last can't be read"),
        (lambda rows: rows.put("removals", b"key", b""), "the row can't be read"),
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


def test_a_change_that_does_not_go_on_where_its_stream_was_is_found(store: Path) -> None:
    lost = Streams()
    lost.first()
    lost.mortal.write(b"lost")
    add_record(store, pack_change((lost.mortal.write(b"after it"),)))
    assert "change 31 of the journal begins at 13, and the tail of the stream is 9" in inspect(store).damages[0]


def test_a_change_of_a_stream_that_nothing_created_is_found(store: Path) -> None:
    draft = Draft(b"who", 99)
    draft.write(b"lost")
    add_record(store, pack_change((draft.write(b"after it"),)))
    assert "change 31 of the journal edits a stream that does not exist" in inspect(store).damages[0]


def test_a_change_that_creates_a_stream_again_is_found(store: Path) -> None:
    add_record(store, pack_change((Draft(b"text", 1).write(b"anew"),)))
    assert "change 31 of the journal creates a stream that exists" in inspect(store).damages[0]


def test_a_change_whose_messages_do_not_fill_it_is_found(store: Path) -> None:
    streams = Streams()
    streams.first()
    write = streams.mortal.write(b"ab", b"cd")
    add_record(store, pack_change((replace(write, ends=(10, 12)),)))
    assert "change 31 of the journal has messages that do not fill its bytes" in inspect(store).damages[0]


def test_a_fork_whose_source_ends_too_early_is_found(store: Path) -> None:
    """A repair that was interrupted after it had cut the source leaves that."""
    streams = Streams()
    streams.text.write(b"fir")
    with rows(store) as changed:
        head = streams.text.head
        changed.put("streams", TEXT, pack_identity(head.identity) + pack_head(head))
    assert inspect(store).streams[3].offset == 3


@pytest.mark.parametrize("body", [b"\x09", b"\x02", b"\x01" + bytes(20)])
def test_a_change_that_says_nothing_readable_is_found(store: Path, body: bytes) -> None:
    add_record(store, body)
    checked = inspect(store)
    assert "change 31 can't be read, though its checksum is right" in checked.damages[0]
    assert "a server does not start" in checked.refusals[0]
    with pytest.raises(StoreError, match="change 31 of the journal can't be read"):
        open_acid(store)


def add_record(store: Path, body: bytes) -> None:
    """Put a change into the journal behind the last one."""
    file, end = parse_log_file(journal_file(store)), records(store)[-1].end
    assert file
    added = Framer(seed_of(SALT, file.first, file.use)).frame(31, 30, (1,), body) + body
    data = file.path.read_bytes()
    file.path.write_bytes(data[:end] + added + data[end + len(added) :])


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
    (store / "manifest.json").write_text('{"format":99,"mode":"acid","salt":1}')
    with pytest.raises(StoreError, match="has format 99; this version reads format 2"):
        check_store(store, no_progress)


@pytest.mark.parametrize("text", [b"{", b"", b"\xff", None])
def test_a_damaged_manifest_is_damage_and_its_copy_serves(store: Path, text: bytes | None) -> None:
    if text is None:
        (store / "manifest.json").unlink()
    else:
        (store / "manifest.json").write_bytes(text)
    assert find_stores(store) == [store]
    report = check_store(store, no_progress, boot=BOOT)
    [damage] = report.damages
    assert str(damage) == "manifest.json: it can't be read; the next start restores it from its copy in the base"
    assert report.tally.records == 4


def test_a_manifest_that_is_not_its_copy_is_damage(store: Path) -> None:
    (store / "manifest.json").write_text('{"format":2,"mode":"acid","salt":8}')
    [damage] = inspect(store).damages
    assert "it is not the one that the base has a copy of" in damage


def test_progress_goes_up_to_all_of_it(store: Path) -> None:
    seen: list[tuple[int, int]] = []
    check_store(store, lambda read_bytes, total_bytes: seen.append((read_bytes, total_bytes)))
    size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    assert seen == sorted(seen)
    assert seen[-1] == (size, size)


# Walking the tree


def test_a_whole_tree_is_walked_to_its_end(store: Path) -> None:
    assert walk_base(store) is None


def test_a_tree_of_zeros_is_refused_by_name(store: Path) -> None:
    file = store / "base" / "data.mdb"
    file.write_bytes(file.read_bytes()[: 2 * PAGE_BYTES] + bytes(file.stat().st_size - 2 * PAGE_BYTES))
    assert walk_base(store) == "its list of free pages can't be read"


@pytest.mark.parametrize("seed", range(4))
def test_a_tree_with_damaged_pages_is_refused_or_has_its_keys(store: Path, seed: int) -> None:
    file, keys, chance = store / "base" / "data.mdb", [row[:2] for row in dump(store)], random.Random(seed)
    data = file.read_bytes()
    used = [start for start in range(0, len(data), PAGE_BYTES) if any(data[start + 16 : start + PAGE_BYTES])]
    for page in chance.sample(used, seed % 4 + 1):
        flip(file, page + chance.randrange(48))
    assert walk_base(store) or [row[:2] for row in dump(store)] == keys


def test_a_server_walks_only_a_store_that_was_not_closed(made: Path, store: Path) -> None:
    """Of a store that was closed, nothing is to be read before it is opened."""
    for each in (store, made / "origin"):
        with WalkedOpening("").open(each / "base") as environment:
            assert environment.stat()["entries"]
    file = store / "base" / "data.mdb"
    file.write_bytes(file.read_bytes()[: 2 * PAGE_BYTES] + bytes(file.stat().st_size - 2 * PAGE_BYTES))
    with pytest.raises(StoreError, match=r"data\.mdb is damaged: .* everbrook repair mends it"):
        WalkedOpening("").open(store / "base")
