"""Segments: plain files of full chunks, which are overwritten behind what the base knows and never named twice."""

import zlib
from pathlib import Path
from random import Random

import pytest

from everbrook.protocol import Identity
from everbrook.storage import FILE_DURABLE, OsDisk
from everbrook.storage.chunk import BLOCK_BYTES, Chunk, Location, cut_run
from everbrook.storage.damage import Damaged
from everbrook.storage.hold import Hold
from everbrook.storage.message_index import Run
from everbrook.storage.segments import Segments, parse_segment_name, segment_path
from tests.kit.damage import cut, flip
from tests.kit.disks import WatchedDisk
from tests.kit.drafts import NOW, Draft
from tests.kit.stores import commit
from tests.unit.storage.checkpoints import HeldStorage, killed, segments

IDENTITY = Identity(b"name", 3, b"text/plain", b"text/plain", NOW)


def opened(folder: Path, disk: OsDisk | None = None, *, max_bytes: int = 1_000, max_open: int = 64) -> Segments:
    disk = disk or OsDisk()
    return Segments(disk, folder, Hold(disk), max_bytes=max_bytes, max_open=max_open)


def chunk(start: int, data: bytes) -> Chunk:
    run = Run(start, batched=False)
    run.append(data, (start + len(data),), NOW)
    return cut_run(run, len(data))[0]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    files = opened(tmp_path)
    writer, last, locations = files.writer(), None, []
    for number in range(20):
        last, _ = writer.write(IDENTITY, chunk(100 * number, b"%02d" % number * 50), last)
        locations.append(last)
    writer.sync()
    for number, location in enumerate(locations):
        assert files.read(3, location, 0, 100) == b"%02d" % number * 50
        assert files.read(3, location, 10, 14) == b"%02d" % number * 2
    assert len(segments(tmp_path)) > 2
    files.close()


def test_files_roll_at_their_size_and_are_named_by_their_first_offset(tmp_path: Path) -> None:
    files, last, named = opened(tmp_path), None, set()
    writer = files.writer()
    for number in range(20):
        last, _ = writer.write(IDENTITY, chunk(100 * number, bytes(100)), last)
        named.add(last.segment)
    writer.sync()
    found = [parse_segment_name(path.name) for path in segments(tmp_path)]
    assert found == [(3, segment) for segment in sorted(named)]
    assert all(path.stat().st_size <= 1_000 for path in segments(tmp_path))


def test_a_chunk_larger_than_a_segment_is_a_segment_by_itself(tmp_path: Path) -> None:
    files = opened(tmp_path)
    writer = files.writer()
    first, _ = writer.write(IDENTITY, chunk(0, b"x" * 5_000), None)
    second, _ = writer.write(IDENTITY, chunk(5_000, b"y" * 10), first)
    writer.sync()
    assert (first.segment, second.segment) == (0, 5_000)
    assert files.read(3, first, 0, 5_000) == b"x" * 5_000
    files.close()


def test_what_lies_behind_the_recorded_end_is_overwritten(tmp_path: Path) -> None:
    """A crash came after the first write and before the base knew of it."""
    files = opened(tmp_path, max_bytes=100_000)
    writer = files.writer()
    known, _ = writer.write(IDENTITY, chunk(0, b"known"), None)
    writer.write(IDENTITY, chunk(5, b"never known" * 100), known)
    writer.sync()
    writer = files.writer()
    again, checksums = writer.write(IDENTITY, chunk(5, b"again"), known)
    writer.sync()
    assert files.read(3, known, 0, 5) == b"known"
    assert files.read(3, again, 0, 5) == b"again"
    assert checksums == zlib.crc32(b"again", zlib.crc32((3).to_bytes(8, "big") + (5).to_bytes(8, "big"))).to_bytes(
        4, "little"
    )
    files.close()


def test_only_so_many_are_open_as_were_allowed(tmp_path: Path) -> None:
    disk = WatchedDisk()
    files, writer, locations = opened(tmp_path, disk, max_open=4), None, {}
    writer = files.writer()
    for incarnation in range(1, 50):
        identity = Identity(b"name", incarnation, b"text/plain", b"text/plain", NOW)
        locations[incarnation], _ = writer.write(identity, chunk(0, b"%02d" % incarnation), None)
    writer.sync()
    assert (disk.most_open, disk.open_files) == (4, set())
    assert {path for kind, path in disk.steps if kind == "write"} <= set(disk.synced())
    for incarnation in Random(1).choices(range(1, 50), k=200):
        assert files.read(incarnation, locations[incarnation], 0, 2) == b"%02d" % incarnation
        assert files.open_files <= 4
    files.close()
    assert files.open_files == 0


def test_an_abandoned_write_leaves_no_file_open(tmp_path: Path) -> None:
    disk = WatchedDisk()
    writer = opened(tmp_path, disk).writer()
    writer.write(IDENTITY, chunk(0, b"x"), None)
    writer.abandon()
    assert disk.open_files == set()


def test_a_file_that_is_gone_or_short_gives_what_is_there(tmp_path: Path) -> None:
    files = opened(tmp_path)
    writer = files.writer()
    location, _ = writer.write(IDENTITY, chunk(0, b"x" * 100), None)
    writer.sync()
    [path] = segments(tmp_path)
    cut(path, location.position + 40)
    assert files.read(3, location, 0, 100) == b"x" * 40
    with pytest.raises(FileNotFoundError):
        files.read(3, Location(7, 0, 1), 0, 1)
    files.close()


# In a store


def filled(folder: Path, size: int = 40_000) -> Draft:
    """Make a store with a stream in segments of two chunks each, and close it."""
    storage, stream = small(folder), Draft(b"a", 3)
    commit(storage, *((stream.write(bytes([number]) * 1_000),) for number in range(1, 1 + size // 1_000)))
    storage.close()
    return stream


def small(folder: Path) -> HeldStorage:
    return HeldStorage(folder, mode=FILE_DURABLE, chunk_bytes=10_000, segment_bytes=25_000)


def test_a_segment_that_lost_its_last_bytes_after_a_clean_stop_is_named(tmp_path: Path) -> None:
    stream = filled(tmp_path)
    path = segments(tmp_path)[0]
    cut(path, path.stat().st_size - 5_000)
    storage = small(tmp_path)
    assert storage.read(3, 0, 10_000) == stream.data[:10_000]
    assert storage.read(3, 20_000, 40_000) == stream.data[20_000:]
    with pytest.raises(Damaged, match=rf"streams/{path.parent.name}/{path.name} at byte \d+: the file is too short"):
        storage.read(3, 10_000, 20_000)
    storage.close()


def test_a_segment_that_is_gone_is_named(tmp_path: Path) -> None:
    stream = filled(tmp_path)
    path = segments(tmp_path)[1]
    path.unlink()
    storage = small(tmp_path)
    assert storage.read(3, 0, 20_000) == stream.data[:20_000]
    with pytest.raises(Damaged, match=rf"{path.name} at byte \d+: the file is missing"):
        storage.read(3, 15_000, 25_000)
    storage.close()


def test_a_flip_costs_the_block_that_it_is_in(tmp_path: Path) -> None:
    stream = filled(tmp_path)
    path = segments(tmp_path)[0]
    position = path.read_bytes().index(bytes([1]) * 1_000)
    flip(path, position + 100)
    storage = small(tmp_path)
    with pytest.raises(Damaged, match=f"{path.name} at byte {position}: the checksum of a block is wrong") as raised:
        storage.read(3, 0, 10)
    assert (raised.value.incarnation, raised.value.mark.offset) == (3, 0)
    assert storage.read(3, BLOCK_BYTES, 40_000) == stream.data[BLOCK_BYTES:]
    storage.close()


def test_a_segment_of_another_stream_in_its_place_is_not_believed(tmp_path: Path) -> None:
    storage = small(tmp_path)
    one, two = Draft(b"a", 1), Draft(b"b", 2)
    commit(storage, (one.write(b"1" * 20_000),), (two.write(b"2" * 20_000),))
    storage.close()
    paths = {number: segment_path(tmp_path / "streams", number, 0) for number in (1, 2)}
    paths[1].write_bytes(paths[2].read_bytes())
    storage = small(tmp_path)
    with pytest.raises(Damaged):
        storage.read(1, 0, 10)
    storage.close()


def test_what_a_killed_checkpoint_wrote_is_written_again(tmp_path: Path) -> None:
    """Segments are written before the base knows of them: here they are of a later moment than the base."""
    storage, stream = small(tmp_path / "store"), Draft(b"a", 3)
    commit(storage, (stream.write(b"x" * 12_000),))
    copy = killed(storage, tmp_path / "copy")
    storage.close()
    for path in segments(tmp_path / "store"):
        target = copy / path.relative_to(tmp_path / "store")
        target.parent.mkdir(parents=True)
        target.write_bytes(path.read_bytes()[:-3] + b"abc" + bytes(500))
    for _ in range(2):
        storage = small(copy)
        assert storage.read(3, 0, 12_000) == b"x" * 12_000
        storage.close()


def test_names_of_segments_never_repeat(tmp_path: Path) -> None:
    storage, stream, seen, present = small(tmp_path), Draft(b"a", 3), set[str](), set[str]()
    chance = Random(1)
    for _ in range(30):
        commit(storage, (stream.write(b"x" * chance.randrange(1, 30_000)),))
        if chance.random() < 0.5:
            commit(storage, (stream.cut(chance.choice([stream.head.kept.earliest, stream.head.tail])),))
            storage.discard(3)
        storage.close()
        now = {path.name for path in segments(tmp_path)}
        assert not (now - present) & seen
        seen, present = seen | now, now
        storage = small(tmp_path)
    storage.close()
    assert len(seen) > 10
