"""A discard that is cut short at any point, or a catalogue that is lost after it: everything that is retained is there.

What was let go of is told from what was lost by what the stream says it retains.
"""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from everbrook.protocol.errors import StreamDamaged
from tests.storage.drafts import Draft
from tests.storage.files.cutting import cut, fill, open_small, starts, verify
from tests.storage.files.disks import Stopped, WatchedDisk
from tests.storage.files.opening import abandon, commit, finish_removals, numbers, open_files, segments

Log = dict[Path, bytes]


class Scene:
    """A stream of several segments that was cut, in a store whose process was killed."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder = folder
        storage = open_small(folder, durable=durable)
        self.stream = Draft(b"a", 1, json=True)
        fill(storage, self.stream)
        begin = starts(storage, 1)
        self.first = 4
        self.floor = next(end for end in self.stream.boundaries if end > begin[self.first])
        commit(storage, (self.stream.cut(self.floor),))
        self.layout = storage.layout
        abandon(storage)
        self._files = {path: path.read_bytes() for path in sorted(folder.rglob("*.log"))}

    def restore(self, *removed: int) -> None:
        """Bring everything back but some segments."""
        for path in self.folder.rglob("catalogue-*"):
            path.unlink()
        for path, data in self._files.items():
            path.write_bytes(data)
        for number in removed:
            self.layout.segment(1, number).unlink()

    def lose_catalogue(self) -> None:
        for path in self.folder.glob("catalogue-*"):
            path.unlink()


def subsets(items: range) -> Iterator[tuple[int, ...]]:
    for count in range(len(items) + 1):
        yield from combinations(items, count)


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "fast"])
@pytest.mark.parametrize("lost", [False, True], ids=["catalogue", "no-catalogue"])
def test_whichever_segments_a_crash_had_removed_the_stream_is_whole(
    tmp_path: Path, *, durable: bool, lost: bool
) -> None:
    """Without a sync of the folder any of them may be there again."""
    scene = Scene(tmp_path, durable=durable)
    for removed in subsets(range(scene.first)):
        scene.restore(*removed)
        if lost:
            scene.lose_catalogue()
        for _ in range(2):
            storage = open_small(tmp_path, durable=durable)
            assert storage.damages == []
            verify(storage, scene.stream, scene.floor)
            left = numbers(tmp_path, 1)
            assert left == list(range(left[0], left[-1] + 1))
            abandon(storage)
        storage = open_small(tmp_path, durable=durable)
        storage.discard(1)
        finish_removals(storage)
        assert numbers(tmp_path, 1)[0] == scene.first
        verify(storage, scene.stream, scene.floor)
        storage.close()


def test_writing_goes_on_behind_a_gap_that_a_discard_left(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.restore(1, 2)
    storage = open_small(tmp_path)
    fill(storage, scene.stream, 3)
    verify(storage, scene.stream, scene.floor)
    storage.close()


def test_a_discard_that_stops_at_any_step_can_be_done_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for steps in range(scene.first + 1):
        scene.restore()
        disk = WatchedDisk()
        storage = open_small(tmp_path, disk)
        storage.load(b"a")
        disk.steps_left = steps
        storage.discard(1)
        finish_removals(storage)
        disk.steps_left = None
        abandon(storage)
        assert numbers(tmp_path, 1)[0] == steps
        storage = open_small(tmp_path)
        verify(storage, scene.stream, scene.floor)
        storage.close()


def test_an_opening_that_stops_while_it_sweeps_can_be_done_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for steps in range(12):
        scene.restore(1, 3)
        disk = WatchedDisk()
        disk.steps_left = steps
        try:
            abandon(open_small(tmp_path, disk))
        except Stopped:
            disk.forget()
        storage = open_small(tmp_path)
        verify(storage, scene.stream, scene.floor)
        storage.close()


@pytest.mark.parametrize("lost", [False, True], ids=["catalogue", "no-catalogue"])
def test_a_retained_segment_that_is_lost_is_damage_and_the_others_are_readable(tmp_path: Path, *, lost: bool) -> None:
    scene = Scene(tmp_path)
    scene.restore(*range(scene.first + 1))
    if lost:
        scene.lose_catalogue()
    storage = open_small(tmp_path)
    path = scene.layout.segment(1, scene.first)
    assert [damage.path for damage in storage.damages] == ([path] if lost else [])
    assert storage.load(b"a")
    begin = starts(storage, 1)[0]
    assert begin > scene.floor
    assert storage.read(1, begin, scene.stream.head.tail) == scene.stream.data[begin:]
    with pytest.raises(StreamDamaged):
        storage.read(1, scene.floor, begin)
    assert [damage.path for damage in storage.damages][-1] == path
    storage.close()


def test_a_segment_lost_in_the_middle_is_not_taken_for_one_that_was_let_go(tmp_path: Path) -> None:
    """Without syncs a machine may lose it and keep what follows. The stream is as it was before, and whole."""
    storage = open_small(tmp_path, durable=False)
    stream = Draft(b"a", 1, json=True)
    fill(storage, stream)
    floor = stream.head.tail
    cut(storage, stream, floor)
    fill(storage, stream)
    begin = dict(zip(numbers(tmp_path, 1), starts(storage, 1), strict=True))
    abandon(storage)
    lost = numbers(tmp_path, 1)[1]
    storage.layout.segment(1, lost).unlink()
    storage = open_small(tmp_path, durable=False)
    record = storage.load(b"a")
    assert record
    assert (record.head.tail, record.head.kept) == (begin[lost], stream.head.kept)
    assert storage.read(1, floor, begin[lost]) == stream.data[floor : begin[lost]]
    storage.close()


def test_what_a_fork_needs_is_not_swept_away(tmp_path: Path) -> None:
    """Its source retains less, and a segment between is lost."""
    storage = open_small(tmp_path)
    source = Draft(b"s", 1, json=True)
    fill(storage, source)
    begin = starts(storage, 1)
    commit(storage, (Draft(b"f", 2, json=True, source=source, offset=source.boundaries[20]).write(b"x,"),))
    cut(storage, source, begin[5])
    abandon(storage)
    (storage.layout.segment(1, 3)).unlink()
    storage = open_small(tmp_path)
    assert set(numbers(tmp_path, 1)) >= {0, 1, 2, 4}
    storage.close()


def test_a_catalogue_that_is_lost_after_discards_is_made_anew(tmp_path: Path) -> None:
    storage = open_small(tmp_path)
    source, other = Draft(b"s", 1, json=True), Draft(b"t", 3, json=True)
    fill(storage, source)
    fill(storage, other)
    cut(storage, source, source.boundaries[60])
    fork = Draft(b"f", 2, json=True, source=source, offset=source.boundaries[80])
    commit(storage, (fork.write(b"own,"),))
    cut(storage, other, other.head.tail)
    storage.close()
    for path in tmp_path.glob("catalogue-*"):
        path.unlink()
    for _ in range(2):
        storage = open_small(tmp_path)
        assert storage.damages == []
        assert storage.fork_count(1) == 1
        verify(storage, source, source.boundaries[60])
        verify(storage, fork, fork.first)
        verify(storage, other, other.head.tail)
        storage.close()


def test_a_stream_dropped_half_and_cut_before_is_swept_away(tmp_path: Path) -> None:
    storage = open_files(tmp_path, segment_bytes=300)
    stream = Draft(b"a", 1, json=True)
    fill(storage, stream)
    cut(storage, stream, stream.boundaries[60])
    storage.persist([(stream.drop(),)])
    abandon(storage)
    storage = open_files(tmp_path)
    assert storage.load(b"a") is None
    assert numbers(tmp_path, 1) == []
    storage.close()


def test_a_joint_change_that_is_done_again_says_what_its_streams_keep(tmp_path: Path) -> None:
    """Without syncs a machine may have lost the cut before it, which has no bytes that would be missed."""
    storage = open_files(tmp_path, durable=False)
    one, two = Draft(b"a", 1), Draft(b"b", 2)
    commit(storage, (one.write(b"first"),), (two.write(b"other"),))
    before = {path: path.read_bytes() for path in segments(tmp_path)}
    commit(storage, (one.cut(5),))
    commit(storage, (one.write(b"x"), two.write(b"y")))
    abandon(storage)
    for path, log in before.items():
        path.write_bytes(log)
    storage = open_files(tmp_path, durable=False)
    assert [head for _, head in storage.scan(b"", b"", 2)] == [one.head, two.head]
    storage.close()
