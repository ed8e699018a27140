"""Checking segments: every byte of the files is what the base says, and what a crash leaves in them is no damage."""

import shutil
from pathlib import Path

import pytest

from everbrook.storage import FILE_DURABLE, check_store
from everbrook.storage.base_rows import PLACE
from everbrook.storage.chunk import parse_location
from everbrook.storage.segments import chunk_end, pack_segment_header, segment_path
from tests.kit.damage import flip
from tests.kit.stores import Streams, inspect, make_store, open_files, rows

TEXT, LONG = 1, 7


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    make_store(folder, FILE_DURABLE)
    return folder


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """A store that was killed, for one test to damage."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "store"


def segment(store: Path, incarnation: int, first: int = 0) -> Path:
    return segment_path(store / "streams", incarnation, first)


@pytest.mark.parametrize("which", ["store", "origin"])
def test_a_store_verifies_whether_it_was_killed_or_closed(made: Path, which: str) -> None:
    checked = inspect(made / which)
    assert (checked.damages, checked.remarks, checked.tally.streams) == ([], [], 6)


def test_a_store_that_was_only_just_made_verifies(tmp_path: Path) -> None:
    open_files(tmp_path).close()
    assert inspect(tmp_path).sound


def test_a_store_is_checked_as_what_its_manifest_says(store: Path) -> None:
    report = check_store(store, lambda _read_bytes, _total_bytes: None)
    assert (report.mode, report.sound, report.tally.streams) == ("file", True, 6)


def test_every_flipped_byte_of_a_segment_is_found(store: Path) -> None:
    path = segment(store, LONG, 320)
    whole = path.read_bytes()
    for position in range(len(whole)):
        flip(path, position)
        damages = inspect(store).damages
        assert any(damage.startswith(str(path.relative_to(store))) for damage in damages), position
        path.write_bytes(whole)


def test_bytes_that_are_damaged_are_named_by_their_stream_and_offset(store: Path) -> None:
    path = segment(store, LONG, 320)
    flip(path, path.read_bytes().index(b"0606"))
    checked = inspect(store)
    [damage] = checked.damages
    assert damage.endswith("stream 'long' is readable up to offset 480 of 1600: the checksum of a block is wrong")
    assert checked.streams[LONG].offset == 480


def test_a_damaged_header_costs_no_bytes(store: Path) -> None:
    flip(segment(store, LONG, 320), 5)
    checked = inspect(store)
    [damage] = checked.damages
    assert damage.endswith("its header is not that of its stream; the bytes are whole")
    assert checked.streams == {}


def test_a_missing_segment_is_found(store: Path) -> None:
    path = segment(store, LONG, 320)
    path.unlink()
    checked = inspect(store)
    assert checked.damages[0].startswith(f"{path.relative_to(store)} at byte ")
    assert checked.damages[0].endswith("stream 'long' is readable up to offset 320 of 1600: the file is missing")


def test_a_segment_that_was_cut_off_is_found(store: Path) -> None:
    path = segment(store, TEXT, 5)
    path.write_bytes(path.read_bytes()[:20_000])
    [damage] = inspect(store).damages
    assert damage.endswith("stream 'text' is readable up to offset 16389 of 307210: the file is too short")


def test_a_segment_of_another_stream_is_found(store: Path) -> None:
    shutil.copy(segment(store, TEXT), segment(store, LONG))
    checked = inspect(store)
    assert any("its header is not that of its stream" in damage for damage in checked.damages)
    assert checked.streams[LONG].offset == 0


def test_two_segments_that_changed_places_are_found(store: Path) -> None:
    first, second, aside = segment(store, LONG), segment(store, LONG, 320), store / "aside"
    first.rename(aside)
    second.rename(first)
    aside.rename(second)
    assert inspect(store).streams[LONG].offset == 0


def test_a_row_that_locates_another_place_is_found(store: Path) -> None:
    with rows(store) as changed:
        row = changed.get_raw("chunks", PLACE.pack(LONG, 320))
        changed.delete("chunks", PLACE.pack(LONG, 320))
        changed.put_raw("chunks", PLACE.pack(LONG, 480), row)
    assert inspect(store).streams[LONG].offset == 320


def test_a_segment_with_chunks_that_is_to_be_removed_is_found(store: Path) -> None:
    with rows(store) as changed:
        changed.put("removals", PLACE.pack(LONG, 320), b"")
    assert "segment 320 of stream 0000000000000007 is to be removed, and has chunks" in inspect(store).damages[0]


# What a crash leaves


def test_what_a_checkpoint_had_written_when_it_was_cut_off_is_told_and_fine(store: Path) -> None:
    with rows(store) as there:
        located = parse_location(PLACE.pack(LONG, 1440), there.get_raw("chunks", PLACE.pack(LONG, 1440)))
    assert located
    path = segment(store, LONG, located[0].segment)
    assert path.stat().st_size == chunk_end(located[0])
    path.write_bytes(path.read_bytes() + b"EBC2 not finished")
    segment(store, LONG, 1600).write_bytes(pack_segment_header(Streams().long.head.identity)[:9])
    checked = inspect(store)
    assert checked.damages == []
    assert [remark.partition(";")[0].partition(":")[0] for remark in checked.remarks] == [
        "the base refers to no chunk of 1 segments",
        "1 segments have bytes behind the last chunk of the base",
    ]


def test_a_segment_that_is_still_to_be_removed_is_fine(store: Path) -> None:
    segment(store, 5).parent.mkdir(parents=True, exist_ok=True)
    segment(store, 5).write_bytes(b"of a stream that was dropped")
    with rows(store) as changed:
        changed.put("removals", PLACE.pack(5, 0), b"")
    checked = inspect(store)
    assert (checked.damages, checked.remarks) == ([], [])


def test_a_damaged_row_of_a_removal_removes_nothing(store: Path) -> None:
    """Its key alone names the segment, so that it must verify."""
    with rows(store) as changed:
        changed.put_raw("removals", PLACE.pack(LONG, 320), b"1234")
    assert any("removals" in damage for damage in inspect(store).damages)
    open_files(store).close()
    assert segment(store, LONG, 320).exists()


def test_a_file_that_is_no_segment_is_told(store: Path) -> None:
    (store / "streams" / "notes.txt").write_text("mine")
    assert inspect(store).remarks == ["1 files in streams/ are no segments"]
