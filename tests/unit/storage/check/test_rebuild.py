"""Rebuilding a store whose base can't be read, and going on with a repair that was interrupted."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from everbrook.storage import OsDisk, StoreError
from everbrook.storage.check import is_copyable
from everbrook.storage.check.repair import Repair
from everbrook.storage.lmdb_base import DATABASE
from everbrook.storage.lmdb_pages import META, NODE, NONE, PAGE, problem_of
from everbrook.storage.segments import segment_path
from tests.kit.drafts import NOW, Draft
from tests.kit.stores import BOOT, Streams, commit, inspect, open_acid, open_files
from tests.unit.storage.check.repairs import (
    JOURNAL_NAME,
    LONG,
    LONG_TEXT,
    SALT,
    SMALL,
    WHOLE,
    contents,
    damage_bytes,
    lost_files,
    make_killed,
    no_progress,
    open_again,
    read_here,
    repair,
    ruin,
    streams_of,
)

PAGE_BYTES = 4096


@pytest.fixture(params=["acid", "file"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return make_killed(tmp_path, request.param)


# A base that can't be read


@pytest.mark.parametrize("damage", ["gone", "short", "zeros", "another"])
def test_a_file_store_without_its_base_is_restored_from_its_segments(files: Path, damage: str) -> None:
    ruin(files, damage)
    lines = repair(files, process=True)
    streams = streams_of(files)
    long = streams[b"long"]
    assert LONG_TEXT.startswith(long.data)
    assert len(long.data) >= 1440
    assert long.times == [NOW + 1 + number for number in range(len(long.data) // 80)]
    assert long.head.identity.content_type == b"text/plain; charset=utf-8"
    # The journal goes on where the segments end, and has a stream of its own.
    assert streams[b"text"].data == WHOLE[b"text"]
    assert streams[b"new"].data == WHOLE[b"new"]
    assert all(stream.head.identity.incarnation > NOW for stream in streams.values())
    assert set(streams) == {b"long", b"text", b"new"}
    assert any(line.startswith("not restored: producers, closure") for line in lines)
    kept = lost_files(files)
    assert "0000000000000007-0000000000000320.log" in kept
    assert JOURNAL_NAME in kept


def test_the_rows_of_a_base_are_copied_if_only_its_list_of_databases_is_damaged(store: Path) -> None:
    path, whole = store / "base" / "data.mdb", contents_of_copy(store)
    data = bytearray(path.read_bytes())
    for place in places(data, NODE.pack(DATABASE.size, 0, 2, len(b"streams")) + b"streams"):
        data[place + NODE.size] ^= 1
    path.write_bytes(data)
    lines = repair(store, process=True)
    assert lines[0] == "every row of the base is in a new file; the old one is kept in lost+found"
    assert contents(store) == whole
    assert "data.mdb" in lost_files(store)


def test_the_rows_of_a_base_are_copied_if_only_its_list_of_free_pages_is_damaged(store: Path) -> None:
    path, whole = store / "base" / "data.mdb", contents_of_copy(store)
    data = bytearray(path.read_bytes())
    for page in (0, 1):
        root = META.unpack_from(data, page * PAGE_BYTES + PAGE.size)[11]
        if root != NONE:
            data[root * PAGE_BYTES + 10] ^= 2
    path.write_bytes(data)
    assert problem_of(path) == "its list of free pages can't be read"
    assert repair(store, process=True)[0].startswith("every row of the base is in a new file")
    assert contents(store) == whole


@pytest.mark.parametrize("database", [b"names", b"meta", b"chunks"])
def test_flags_and_names_of_every_database_are_mended(store: Path, database: bytes) -> None:
    path, whole = store / "base" / "data.mdb", contents_of_copy(store)
    before = path.read_bytes()
    for at in (NODE.size, NODE.size + len(database) + 4):
        data = bytearray(before)
        for place in places(data, NODE.pack(DATABASE.size, 0, 2, len(database)) + database):
            data[place + at] ^= 4
        path.write_bytes(data)
        assert is_copyable(store)
    assert repair(store, process=True)
    assert contents(store) == whole


def test_a_base_that_lacks_rows_is_not_copied(store: Path) -> None:
    """Where a page is damaged, the segments may know more."""
    path = store / "base" / "data.mdb"
    whole, refused = path.read_bytes(), 0
    assert is_copyable(store)
    for page in range(2, len(whole) // PAGE_BYTES):
        data = bytearray(whole)
        data[page * PAGE_BYTES + 12] ^= 2
        path.write_bytes(data)
        refused += not is_copyable(store)
    assert refused >= 8
    path.unlink()
    assert not is_copyable(store)


def places(data: bytearray, found: bytes) -> list[int]:
    return [place for place in range(len(data)) if data.startswith(found, place)]


def contents_of_copy(store: Path) -> dict[bytes, bytes]:
    """Read what a store holds without changing it."""
    copy = store.parent / "copy" / store.name
    shutil.copytree(store, copy)
    return contents(copy)


def test_forks_are_restored_from_segments(files: Path) -> None:
    storage, streams = open_files(files), Streams()
    streams.first()
    fork = Draft(b"late", 30, source=streams.long, offset=800)
    lost = Draft(b"of a small stream", 31, source=streams.mortal, offset=9)
    commit(storage, *((draft.write(b"own" * 100),) for draft in (fork, lost)))
    storage.close()
    ruin(files, "gone")
    repair(files, process=True)
    restored = streams_of(files)
    late, orphan = restored[b"late"], restored[b"of a small stream"]
    assert late.head.identity.fork
    assert late.head.identity.fork.source_incarnation == restored[b"long"].head.identity.incarnation
    assert (late.data, late.head.tail) == (b"own" * 100, 1100)
    assert (orphan.data, orphan.head.kept.earliest, orphan.head.identity.fork) == (b"own" * 100, 9, None)


def test_an_acid_store_without_its_base_has_what_its_journal_has(acid: Path) -> None:
    ruin(acid, "gone")
    lines = repair(acid, process=True)
    assert contents(acid) == {b"new": WHOLE[b"new"]}
    assert "an acid store has its bytes in the base: restore a backup to get the bytes that are lost" in lines


def test_a_base_that_can_be_read_in_part_is_kept_aside(acid: Path) -> None:
    ruin(acid, "zeros")
    repair(acid, process=True)
    assert "data.mdb" in lost_files(acid)


def test_segments_are_followed_up_to_the_first_that_is_missing(files: Path) -> None:
    segment_path(files / "streams", LONG, 640).unlink()
    ruin(files, "gone")
    repair(files)
    assert contents(files)[b"long"] == LONG_TEXT[:640]


def test_changes_that_are_in_segments_already_are_not_taken_twice(files: Path) -> None:
    """A crash between a checkpoint and the trimming of the journal leaves both."""
    storage, stream = open_again(files), Draft(b"twice", 50)
    for number in range(6):
        commit(storage, (stream.write(b"%d" % number * 150),))
    shutil.copytree(files / "journal", files.parent / "journal")
    storage.close()
    shutil.copytree(files.parent / "journal", files / "journal", dirs_exist_ok=True)
    ruin(files, "gone")
    repair(files)
    restored = streams_of(files)[b"twice"]
    assert (restored.data, len(restored.times)) == (stream.data, 6)


def test_of_two_streams_with_one_name_the_younger_is_restored(files: Path) -> None:
    shutil.copytree(files / "streams", files.parent / "streams")
    storage, streams = open_again(files), Streams()
    streams.first()
    young = Draft(b"long", 50)
    commit(storage, (streams.long.drop(),), (young.write(b"young" * 100),))
    storage.close()
    shutil.copytree(files.parent / "streams", files / "streams", dirs_exist_ok=True)
    ruin(files, "gone")
    lines = repair(files)
    assert contents(files)[b"long"] == young.data
    assert "another stream that was called 'long' is set aside: 0000000000000007" in lines


# Interruptions


class Killed(Exception):
    """The process ended here."""


def kill_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let the process end with a certain step that it takes on the disk."""
    left = [step]

    def counted(name: str) -> Callable[..., object]:
        original = getattr(OsDisk, name)

        def take(*args: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return original(*args)

        return take

    for name in ("create", "rename", "remove", "sync_folder"):
        monkeypatch.setattr(OsDisk, name, counted(name))


@pytest.mark.parametrize("damage", ["bytes", "base"])
def test_a_repair_that_was_killed_anywhere_is_run_again(
    files: Path, tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if damage == "bytes":
        damage_bytes(files, LONG_TEXT[960:1040])
    else:
        ruin(files, "gone")
    for step in range(2, 1000, 7):
        store = tmp_path / str(step) / "file"
        shutil.copytree(files, store)
        with monkeypatch.context() as patched, suppress(Killed):
            kill_at(patched, step)
            repair(store)
            assert step > 20
            return
        if not inspect(store).sound:
            repair(store)
        streams = contents(store)
        assert LONG_TEXT.startswith(streams[b"long"])
        assert len(streams[b"long"]) >= 960
        assert streams[b"new"] == WHOLE[b"new"]


def test_a_server_does_not_start_while_a_repair_is_interrupted(acid: Path) -> None:
    (acid / "rebuilt").mkdir()
    with pytest.raises(StoreError, match="was interrupted: run everbrook repair again"):
        open_acid(acid)
    assert not inspect(acid).sound


def test_a_sound_store_has_nothing_to_repair(store: Path) -> None:
    repairing = Repair(store, now=NOW, salt=SALT, boot=BOOT, tuning=SMALL, read=read_here)
    assert repairing.check(no_progress).sound
    repairing.close()
