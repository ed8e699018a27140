"""Discarding: whole segments before what is retained go, and everything from there on stays."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from everbrook.protocol.errors import StreamDamaged
from everbrook.storage import OsDisk, Record
from tests.storage.drafts import Draft
from tests.storage.files.cutting import SEGMENT_BYTES, cut, fill, open_small, starts, verify
from tests.storage.files.disks import WatchedDisk
from tests.storage.files.opening import commit, finish_removals, numbers, open_files, segments


@pytest.mark.parametrize("reopened", [False, True], ids=["hot", "cold"])
def test_a_cut_at_any_boundary_leaves_the_segment_that_holds_it_and_those_behind(
    tmp_path: Path, *, reopened: bool
) -> None:
    storage = open_small(tmp_path)
    stream = Draft(b"a", 1, json=True)
    fill(storage, stream)
    assert len(numbers(tmp_path, 1)) > 5
    for floor in stream.boundaries:
        cut(storage, stream, floor)
        if reopened:
            storage.close()
            storage = open_small(tmp_path)
        verify(storage, stream, floor)
        first, *later = starts(storage, 1)
        assert first <= floor
        assert later == [] or later[0] > floor
    storage.close()


def test_a_segment_that_begins_where_the_stream_does_is_the_first_that_stays(tmp_path: Path) -> None:
    storage = open_small(tmp_path)
    stream = Draft(b"a", 1, json=True)
    fill(storage, stream)
    for number, start in enumerate(starts(storage, 1)):
        cut(storage, stream, start)
        assert numbers(tmp_path, 1)[0] == number
    storage.close()


def test_what_is_cut_entirely_goes_on(tmp_path: Path) -> None:
    storage = open_small(tmp_path)
    stream = Draft(b"a", 1, json=True)
    for _ in range(3):
        fill(storage, stream)
        cut(storage, stream, stream.head.tail)
        assert len(numbers(tmp_path, 1)) == 1
    storage.close()
    storage = open_small(tmp_path)
    floor = stream.head.tail
    fill(storage, stream)
    verify(storage, stream, floor)
    storage.close()


def test_discarding_again_or_what_is_not_there_changes_nothing(tmp_path: Path) -> None:
    storage = open_small(tmp_path)
    stream = Draft(b"a", 1, json=True)
    fill(storage, stream)
    storage.discard(1)
    storage.discard(99)
    finish_removals(storage)
    assert numbers(tmp_path, 1)[0] == 0
    cut(storage, stream, stream.boundaries[50])
    left = numbers(tmp_path, 1)
    for _ in range(2):
        storage.discard(1)
        finish_removals(storage)
        assert numbers(tmp_path, 1) == left
    assert storage.damages == []
    storage.close()


def test_plain_writes_carry_on_what_was_cut(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    stream = Draft(b"a", 1)
    commit(storage, (stream.write(b"one"),))
    commit(storage, (stream.cut(3, blob=7, content=b"sum"),))
    for data in (b"two", b"three"):
        commit(storage, (stream.write(data),))
    assert storage.load(b"a") == Record(stream.head, {})
    storage.close()
    storage = open_files(tmp_path)
    assert storage.load(b"a") == Record(stream.head, {})
    storage.close()


def test_after_a_clean_end_no_folder_has_to_be_listed_for_a_cut_stream(tmp_path: Path) -> None:
    storage = open_small(tmp_path)
    stream = Draft(b"a", 1, json=True)
    fill(storage, stream)
    cut(storage, stream, stream.boundaries[70])
    storage.close()

    listed: list[Path] = []

    class Listing(OsDisk):
        def names(self, folder: Path) -> list[str]:
            listed.append(folder)
            return super().names(folder)

    for _ in range(2):
        storage = open_files(tmp_path, Listing(), segment_bytes=SEGMENT_BYTES)
        verify(storage, stream, stream.boundaries[70])
        assert set(listed) <= {tmp_path, tmp_path / "streams"}
        storage.close()


def test_the_fast_mode_syncs_the_cut_before_it_removes_anything(tmp_path: Path) -> None:
    """Else a failure of the power could leave a stream that says it has what is gone."""
    disk = WatchedDisk()
    storage = open_small(tmp_path, disk, durable=False)
    stream = Draft(b"a", 1, json=True)
    fill(storage, stream)
    disk.steps.clear()
    cut(storage, stream, stream.boundaries[70])
    first = next(place for place, (kind, _) in enumerate(disk.steps) if kind == "remove")
    last = segments(tmp_path)[-1]
    assert [path for kind, path in disk.steps[:first] if kind == "sync"] == [last, last.parent]
    storage.close()


def test_the_folder_of_removed_segments_is_synced_with_the_next_group(tmp_path: Path) -> None:
    disk = WatchedDisk()
    storage = open_small(tmp_path, disk)
    stream, other = Draft(b"a", 1, json=True), Draft(b"b", 2)
    commit(storage, (other.write(b"x"),))
    fill(storage, stream)
    cut(storage, stream, stream.boundaries[70])
    disk.steps.clear()
    commit(storage, (other.write(b"y"),))
    assert ("sync", storage.layout.bucket(1)) in disk.steps
    storage.close()


def test_a_dropped_stream_leaves_nothing_though_it_begins_later(tmp_path: Path) -> None:
    storage = open_small(tmp_path)
    stream = Draft(b"a", 1, json=True)
    fill(storage, stream)
    cut(storage, stream, stream.boundaries[70])
    commit(storage, (stream.drop(),))
    assert segments(tmp_path) == []
    again = Draft(b"a", 2, json=True)
    fill(storage, again)
    verify(storage, again, 0)
    storage.close()


def test_a_stream_that_left_memory_is_written_to_where_it_ends(tmp_path: Path) -> None:
    storage = open_files(tmp_path, segment_bytes=SEGMENT_BYTES, hot_bytes=1, pens_bytes=1)
    stream, other = Draft(b"a", 1, json=True), Draft(b"b", 2)
    fill(storage, stream)
    cut(storage, stream, stream.boundaries[70])
    commit(storage, (other.write(b"x"),))
    storage.load(b"b")
    assert storage.inspect().hot_logs == 1
    fill(storage, stream)
    verify(storage, stream, stream.boundaries[70])
    storage.close()


def test_what_could_not_be_removed_is_by_the_next_opening(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Stuck(WatchedDisk):
        def remove(self, path: Path) -> None:
            if path.suffix == ".log" and path.parent.parent.name == "streams":
                raise PermissionError(13, "not today")
            super().remove(path)

    storage = open_small(tmp_path, Stuck())
    stream = Draft(b"a", 1, json=True)
    fill(storage, stream)
    cut(storage, stream, stream.boundaries[70])
    assert numbers(tmp_path, 1)[0] == 0
    assert "not today" in caplog.text
    verify(storage, stream, stream.boundaries[70])
    storage.close()
    storage = open_small(tmp_path)
    storage.discard(1)
    finish_removals(storage)
    assert numbers(tmp_path, 1)[0] > 0
    verify(storage, stream, stream.boundaries[70])
    storage.close()


def test_what_was_let_go_is_not_read_any_more(tmp_path: Path) -> None:
    storage = open_small(tmp_path)
    stream = Draft(b"a", 1, json=True)
    fill(storage, stream)
    first = replace(stream.head).tail
    cut(storage, stream, first)
    fill(storage, stream)
    with pytest.raises(StreamDamaged):
        storage.read(1, 0, 5)
    assert storage.seek(1, stream.head.tail, -10_000)[0] >= starts(storage, 1)[0]
    storage.close()
