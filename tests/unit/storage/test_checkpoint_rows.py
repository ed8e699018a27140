"""What a checkpoint writes: rows until there is a full chunk, then segments, which hold nothing but full chunks."""

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from everbrook.protocol import Producer
from everbrook.storage import ACID, FILE_DURABLE, DurableMode
from everbrook.storage.base_rows import PLACE
from everbrook.storage.chunk import chunk_length, is_inline
from everbrook.storage.segments import segment_path
from tests.kit.damage import rows
from tests.kit.disks import WatchedDisk
from tests.kit.drafts import Draft
from tests.kit.stores import commit
from tests.unit.storage.checkpoints import HeldStorage, segments
from tests.unit.storage.contract.test_discarding import assert_whole_from


def opened(folder: Path, mode: DurableMode = FILE_DURABLE, disk: WatchedDisk | None = None) -> HeldStorage:
    return HeldStorage(
        folder, disk, mode, checkpoint_bytes=1, chunk_bytes=1_000, small_chunk_bytes=200, segment_bytes=5_000
    )


def write(storage: HeldStorage, stream: Draft, size: int) -> None:
    """Append, and wait for the checkpoint."""
    commit(storage, (stream.write(Random(size).randbytes(size)),))
    storage.settle()


def test_a_small_tail_stays_in_rows_until_there_is_a_full_chunk(tmp_path: Path) -> None:
    storage, stream = opened(tmp_path), Draft(b"a", 1)
    for _ in range(9):
        write(storage, stream, 100)
        assert segments(tmp_path) == []
        assert all(map(is_inline, storage.chunk_rows(1)))
    write(storage, stream, 100)
    assert [(is_inline(row), chunk_length(row)) for row in storage.chunk_rows(1)] == [(False, 1_000)]
    assert len(segments(tmp_path)) == 1
    assert_whole_from(storage, stream, 0, Random(1))
    storage.close()


@pytest.mark.parametrize("seed", range(5))
def test_segments_hold_only_full_chunks(tmp_path: Path, seed: int) -> None:
    chance, storage, stream = Random(seed), opened(tmp_path), Draft(b"a", 1, json=bool(seed % 2))
    for _ in range(60):
        write(storage, stream, chance.choice([1, 10, 150, 700, 2_500]))
    found = [(chunk_length(row), is_inline(row)) for row in storage.chunk_rows(1)]
    assert sum(not inline for _, inline in found) > 10
    # A chunk before a message that does not fit may be shorter.
    assert all(inline or size >= 500 or size + after > 1_000 for (size, inline), (after, _) in pairwise(found))
    assert sum(chunk_length(row) for row in storage.chunk_rows(1) if is_inline(row)) < 1_000
    assert_whole_from(storage, stream, 0, chance)
    storage.close()


def test_a_long_append_is_joined_with_what_was_there_at_its_beginning_only(tmp_path: Path) -> None:
    """To move the bounds of all its chunks takes as long as all of its messages."""
    storage, stream = opened(tmp_path), Draft(b"a", 1, json=True)
    write(storage, stream, 300)
    commit(storage, (stream.write(*(b"%0100d" % number for number in range(40))),))
    storage.settle()
    assert [chunk_length(row) for row in storage.chunk_rows(1)] == [1_000, 300, 1_000, 1_000, 1_000]
    assert_whole_from(storage, stream, 0, Random(1))
    storage.close()


def test_a_slow_stream_has_no_tiny_chunks_in_acid_mode(tmp_path: Path) -> None:
    storage, stream = opened(tmp_path, ACID), Draft(b"a", 1)
    for _ in range(100):
        write(storage, stream, 30)
    assert len(storage.chunk_rows(1)) <= 100 * 30 // 200 + 1
    assert_whole_from(storage, stream, 0, Random(1))
    storage.close()


def test_a_checkpoint_over_many_small_streams_syncs_no_files_of_theirs(tmp_path: Path) -> None:
    disk = WatchedDisk()
    storage = opened(tmp_path, disk=disk)
    disk.steps.clear()
    commit(storage, *((Draft(b"%d" % number, number).write(b"x"),) for number in range(1, 301)))
    storage.settle()
    assert [path for kind, path in disk.steps if "streams" in path.parts] == []
    storage.close()


def test_segments_are_synced_before_the_base_refers_to_them(tmp_path: Path) -> None:
    disk = WatchedDisk()
    storage, stream = opened(tmp_path, disk=disk), Draft(b"a", 1)
    disk.steps.clear()
    write(storage, stream, 3_000)
    [path] = segments(tmp_path)
    assert (
        disk.steps.index(("write", path)) < disk.steps.index(("sync", path)) < disk.steps.index(("sync", path.parent))
    )
    trimmed = [place for place, (kind, _) in enumerate(disk.steps) if kind in {"rename", "remove"}]
    assert disk.steps.index(("sync", path.parent)) < trimmed[-1]
    storage.close()


def test_what_is_to_be_removed_is_a_row_until_it_is_gone(tmp_path: Path) -> None:
    class Stuck(WatchedDisk):
        def remove(self, path: Path) -> None:
            if path.parent.parent.name == "streams":
                raise PermissionError(13, "not today")
            super().remove(path)

    storage, stream = opened(tmp_path, disk=Stuck()), Draft(b"a", 1)
    write(storage, stream, 3_000)
    commit(storage, (stream.drop(),))
    storage.close()
    with rows(tmp_path) as found:
        assert list(found.all(b"removals")) == [PLACE.pack(1, 0)]
    opened(tmp_path).close()
    assert segments(tmp_path) == []
    opened(tmp_path).close()
    with rows(tmp_path) as found:
        assert found.all(b"removals") == {}


@pytest.mark.parametrize("mode", [ACID, FILE_DURABLE], ids=["acid", "file"])
def test_a_dropped_stream_leaves_no_row(tmp_path: Path, mode: DurableMode) -> None:
    storage, stream = opened(tmp_path, mode), Draft(b"a", 1, ttl_secs=60)
    commit(storage, (stream.write(b"x" * 2_500, producer=(b"p", Producer(1, 2, 3))),))
    storage.settle()
    commit(storage, (Draft(b"f", 2, source=stream, offset=1).write(),))
    storage.settle()
    commit(storage, (Draft(b"f", 2, source=stream, offset=1).drop(), stream.drop()))
    storage.close()
    opened(tmp_path, mode).close()
    with rows(tmp_path) as found:
        left = {name: found.all(name) for name in found.names() if name != b"meta"}
        assert {name: each for name, each in left.items() if each} == {}


def test_a_damaged_row_removes_no_segment_that_it_only_seems_to_name(tmp_path: Path) -> None:
    """A flip in the number of a segment must not turn it into another one, which is needed."""
    storage, stream = opened(tmp_path), Draft(b"a", 1)
    for _ in range(12):
        write(storage, stream, 1_000)
    storage.close()
    later = int(segments(tmp_path)[-1].stem.split("-")[1])
    with rows(tmp_path) as changed:
        row = bytearray(changed.all(b"chunks")[PLACE.pack(1, 0)])
        row[1:9] = later.to_bytes(8, "little")
        changed.put(b"chunks", PLACE.pack(1, 0), bytes(row))
    storage = opened(tmp_path)
    commit(storage, (stream.cut(2_000),))
    storage.discard(1)
    storage.close()
    assert segment_path(tmp_path / "streams", 1, later).exists()


def test_a_damaged_row_keeps_the_segment_that_it_may_be_in(tmp_path: Path) -> None:
    storage, stream = opened(tmp_path), Draft(b"a", 1)
    for _ in range(12):
        write(storage, stream, 1_000)
    storage.close()
    with rows(tmp_path) as changed:
        changed.flip(b"chunks", PLACE.pack(1, 1_000), 9)
    storage = opened(tmp_path)
    commit(storage, (stream.cut(1_000),))
    storage.discard(1)
    storage.close()
    storage = opened(tmp_path)
    assert storage.read(1, 2_000, 12_000) == stream.data[2_000:]
    storage.close()


def test_damage_is_not_written_again_as_if_it_were_whole(tmp_path: Path) -> None:
    """A tail is joined with what follows: its new checksum must not cover bytes that were wrong before."""
    storage, stream = opened(tmp_path), Draft(b"a", 1)
    write(storage, stream, 100)
    storage.close()
    with rows(tmp_path) as changed:
        changed.flip(b"chunks", PLACE.pack(1, 0), 50)
    storage = opened(tmp_path)
    write(storage, stream, 950)
    assert [chunk_length(row) for row in storage.chunk_rows(1)] == [100, 950]
    assert storage.read(1, 100, 1_050) == stream.data[100:]
    storage.close()
