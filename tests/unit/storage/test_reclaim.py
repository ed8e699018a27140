"""What was cut is removed from the base, and its room is used again, whatever is under way."""

import random
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from everbrook.protocol import Change
from everbrook.protocol.errors import StreamDamaged
from everbrook.storage import ACID, FILE_DURABLE, DurableMode, StorageTuning
from everbrook.storage.base_rows import INCARNATION
from everbrook.storage.checkpoint import Checkpoint
from tests.kit.damage import rows
from tests.kit.disks import WatchedDisk
from tests.kit.drafts import Draft
from tests.kit.stores import commit
from tests.unit.storage.checkpoints import HeldStorage, killed, segments
from tests.unit.storage.contract.test_discarding import Life, assert_whole_from
from tests.unit.storage.contract.test_messages import found_messages, model_messages, model_seek
from tests.unit.storage.engines import scratch_folder

MEBIBYTE = 1 << 20
CHUNK_BYTES = StorageTuning().chunk_bytes
MODES = pytest.mark.parametrize("mode", [ACID, FILE_DURABLE], ids=["acid", "file"])


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield Path(folder)


def opened(folder: Path, mode: DurableMode = ACID, checkpoint_bytes: int = MEBIBYTE) -> HeldStorage:
    return HeldStorage(folder, mode=mode, checkpoint_bytes=checkpoint_bytes, segment_bytes=MEBIBYTE)


def write_much(storage: HeldStorage, stream: Draft, chance: random.Random, total_bytes: int) -> None:
    end = stream.head.tail + total_bytes
    while stream.head.tail < end:
        commit(storage, (stream.write(chance.randbytes(chance.randrange(500, 60_000))),))
    storage.settle()


def used_bytes(folder: Path) -> int:
    return (folder / "base" / "data.mdb").stat().st_size + sum(path.stat().st_size for path in segments(folder))


@MODES
def test_the_room_of_what_was_cut_is_used_again(folder: Path, mode: DurableMode) -> None:
    chance, stream, storage = random.Random(1), Draft(b"a", 1), opened(folder, mode)
    sizes = []
    for _ in range(6):
        write_much(storage, stream, chance, 3 * MEBIBYTE)
        commit(storage, (stream.cut(stream.head.tail),))
        sizes.append(used_bytes(folder))
        storage.discard(1)
        storage.settle()
        stream.data = b""
    assert sizes[0] >= 2 * MEBIBYTE
    assert sizes[-1] < 2 * sizes[0]
    storage.close()


@MODES
def test_much_that_was_cut_goes_without_further_writes(folder: Path, mode: DurableMode) -> None:
    chance, stream, storage = random.Random(1), Draft(b"a", 1), opened(folder, mode)
    write_much(storage, stream, chance, 3 * MEBIBYTE)
    commit(storage, (stream.cut(stream.boundaries[-2]),))
    before = storage.stored_bytes(1)
    storage.discard(1)
    storage.settle()
    assert before > MEBIBYTE
    assert storage.stored_bytes(1) < CHUNK_BYTES
    assert_whole_from(storage, stream, stream.boundaries[-2], chance)
    storage.close()


def test_little_that_was_cut_goes_with_the_next_checkpoint(folder: Path) -> None:
    stream, storage = Draft(b"a", 1), opened(folder)
    commit(storage, (stream.write(b"x" * 20_000),), (stream.write(b"y" * 20_000),))
    storage.close()
    storage = opened(folder)
    commit(storage, (stream.cut(40_000),))
    storage.discard(1)
    storage.settle()
    assert storage.stored_bytes(1) == 40_000
    storage.close()
    storage = opened(folder)
    assert storage.stored_bytes(1) == 0
    storage.close()


def test_a_discard_that_failed_is_done_by_the_next_checkpoint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, stream, storage = random.Random(1), Draft(b"a", 1), opened(folder)
    write_much(storage, stream, chance, 3 * MEBIBYTE)
    commit(storage, (stream.cut(stream.boundaries[-2]),))

    def fail(_checkpoint: Checkpoint) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "commit", fail)
        storage.discard(1)
        storage.settle()
    assert storage.stored_bytes(1) > MEBIBYTE
    commit(storage, (stream.write(b"more"),))
    storage.close()
    storage = opened(folder)
    assert storage.stored_bytes(1) < CHUNK_BYTES
    assert_whole_from(storage, stream, stream.boundaries[-3], chance)
    storage.close()


def three_layers(storage: HeldStorage, stream: Draft, chance: random.Random) -> Event:
    """Leave a stream partly in the base, partly in a checkpoint that waits for an event, and partly in memory only."""
    write_much(storage, stream, chance, MEBIBYTE)
    go_on = storage.background.hold()
    before = storage.background.submitted
    while storage.background.submitted == before:
        commit(storage, (stream.write(*(chance.randbytes(9_000) for _ in range(3))),))
    for _ in range(20):
        commit(storage, (stream.write(*(chance.randbytes(900) for _ in range(3))),))
    return go_on


@MODES
def test_messages_are_found_across_all_layers(folder: Path, mode: DurableMode) -> None:
    chance, stream, storage = random.Random(1), Draft(b"a", 1, json=True), opened(folder, mode)
    go_on = three_layers(storage, stream, chance)
    boundaries = stream.boundaries
    for waiting in (True, False):
        if not waiting:
            go_on.set()
            storage.background.finish()
        for _ in range(300):
            offset, count = chance.choice(boundaries), chance.randrange(-len(boundaries), len(boundaries))
            assert storage.seek(1, offset, count) == model_seek(stream, offset, count)
        for _ in range(30):
            start, end = sorted(chance.sample(boundaries, 2))
            assert found_messages(storage, 1, start, end) == model_messages(stream, start, end)
        assert_whole_from(storage, stream, 0, chance)
    storage.close()


@MODES
@pytest.mark.parametrize("where", [0.2, 0.7, 0.99])
def test_what_is_cut_while_a_checkpoint_is_under_way_goes_after_it(
    folder: Path, mode: DurableMode, where: float
) -> None:
    chance, stream, storage = random.Random(1), Draft(b"a", 1, json=True), opened(folder, mode)
    go_on = three_layers(storage, stream, chance)
    floor = stream.boundaries[int(len(stream.boundaries) * where)]
    commit(storage, (stream.cut(floor),))
    storage.discard(1)
    assert_whole_from(storage, stream, floor, chance)
    go_on.set()
    storage.settle()
    assert_whole_from(storage, stream, floor, chance)
    commit(storage, (stream.write(b"after it,"),))
    storage.close()
    storage = opened(folder, mode)
    assert_whole_from(storage, stream, floor, chance)
    storage.close()


class Killed:
    """A store that is not closed before it is opened anew."""

    def __init__(self, storage: HeldStorage) -> None:
        self.storage = storage

    def commit(self, *group: Change) -> None:
        commit(self.storage, *group)

    def reopen_if_durable(self) -> None:
        self.storage.settle()


@MODES
@pytest.mark.parametrize("seed", range(4))
def test_a_store_that_is_killed_at_any_point_has_what_somebody_retains(
    folder: Path, mode: DurableMode, seed: int
) -> None:

    def start(folder: Path) -> HeldStorage:
        return HeldStorage(folder, mode=mode, checkpoint_bytes=2_000, chunk_bytes=1_000, segment_bytes=4_000)

    chance, storage = random.Random(seed), start(folder / "store")
    life = Life(Killed(storage), seed)
    for number in range(60):
        life.step()
        if number % 4:
            continue
        again = start(killed(storage, folder / f"copy-{number}"))
        assert again.damages == []
        assert_whole_from(again, life.stream, life.floor, chance)
        again.close()
    storage.close()


# Segments


def small(folder: Path) -> HeldStorage:
    return HeldStorage(folder, mode=FILE_DURABLE, checkpoint_bytes=1, chunk_bytes=100, segment_bytes=500)


def write_segments(storage: HeldStorage, stream: Draft, count: int = 30) -> None:
    for number in range(count):
        commit(storage, (stream.write(b"%02d" % number * 30),))
        storage.settle()


def test_a_cut_at_any_boundary_leaves_the_segments_from_it_on(folder: Path) -> None:
    storage, stream, chance = small(folder), Draft(b"a", 1), random.Random(1)
    write_segments(storage, stream)
    assert len(segments(folder)) > 3
    for floor in stream.boundaries:
        commit(storage, (stream.cut(floor),))
        storage.discard(1)
        commit(storage, (Draft(b"b", 2).write(),))
        storage.settle()
        assert_whole_from(storage, stream, floor, chance)
        starts = [int(path.stem.split("-")[1]) for path in segments(folder)]
        assert all(start > floor for start in starts[1:])
    storage.close()


def test_what_is_cut_entirely_leaves_no_segment_and_goes_on(folder: Path) -> None:
    storage, stream, chance = small(folder), Draft(b"a", 1), random.Random(1)
    for _ in range(3):
        floor = stream.head.tail
        write_segments(storage, stream, 10)
        assert segments(folder)
        assert_whole_from(storage, stream, floor, chance)
        commit(storage, (stream.cut(stream.head.tail),))
        storage.discard(1)
        commit(storage, (Draft(b"b", 2).write(),))
        storage.settle()
        assert segments(folder) == []
    storage.close()


def test_a_dropped_stream_leaves_no_segment_and_no_open_file(folder: Path) -> None:
    storage, stream = small(folder), Draft(b"a", 1)
    write_segments(storage, stream)
    assert storage.read(1, 0, stream.head.tail) == stream.data
    assert storage.open_segments
    commit(storage, (stream.drop(),))
    storage.settle()
    assert (segments(folder), storage.open_segments) == ([], 0)
    storage.close()


def test_what_was_let_go_is_not_read_any_more(folder: Path) -> None:
    storage, stream = small(folder), Draft(b"a", 1)
    write_segments(storage, stream)
    commit(storage, (stream.cut(stream.head.tail),))
    storage.discard(1)
    commit(storage, (stream.write(b"z" * 60),))
    storage.settle()
    with pytest.raises(StreamDamaged):
        storage.read(1, 0, 5)
    assert storage.seek(1, stream.head.tail, -10_000)[0] >= stream.boundaries[-2]
    storage.close()


def test_what_a_damaged_fork_may_need_stays(folder: Path) -> None:
    storage, source = small(folder), Draft(b"s", 1)
    write_segments(storage, source)
    commit(storage, (Draft(b"f", 2, source=source, offset=60).write(b"own"),))
    storage.close()
    with rows(folder) as changed:
        changed.flip(b"streams", INCARNATION.pack(2))
    storage = small(folder)
    commit(storage, (source.cut(source.head.tail),))
    storage.discard(1)
    storage.settle()
    assert storage.read(1, 0, 120) == source.data[:120]
    assert storage.keeps(1, 1)
    storage.close()


def test_a_damaged_stream_is_left_as_it_is(folder: Path) -> None:
    storage, stream = small(folder), Draft(b"a", 1)
    write_segments(storage, stream)
    commit(storage, (stream.cut(stream.head.tail),))
    storage.close()
    with rows(folder) as changed:
        changed.flip(b"streams", INCARNATION.pack(1))
    left = segments(folder)
    storage = small(folder)
    storage.discard(1)
    storage.close()
    assert segments(folder) == left


# Interrupted removals


class Stuck(WatchedDisk):
    """A disk that removes no segment while it is stuck."""

    stuck = True

    def remove(self, path: Path) -> None:
        if self.stuck and path.parent.parent.name == "streams":
            raise PermissionError(13, "not today", str(path))
        super().remove(path)


def test_segments_that_could_not_be_removed_are_by_a_later_start(folder: Path) -> None:
    disk, stream = Stuck(), Draft(b"a", 1)
    storage = HeldStorage(folder, disk, FILE_DURABLE, checkpoint_bytes=1, chunk_bytes=100, segment_bytes=500)
    write_segments(storage, stream)
    commit(storage, (stream.drop(),))
    for number in (2, 3, 4):
        commit(storage, (Draft(b"%d" % number, number).write(b"x"),))
        storage.settle()
    storage.close()
    assert segments(folder)
    small(folder).close()
    assert segments(folder) == []


def test_segments_that_a_pin_holds_are_removed_though_the_process_ends(folder: Path) -> None:
    storage, stream = small(folder / "store"), Draft(b"a", 1)
    write_segments(storage, stream)
    storage.pin()
    commit(storage, (stream.drop(),))
    for number in (2, 3, 4):
        commit(storage, (Draft(b"%d" % number, number).write(b"x"),))
        storage.settle()
    copy = killed(storage, folder / "copy")
    storage.close()
    assert segments(copy)
    small(copy).close()
    assert segments(copy) == []


def test_a_kill_between_the_commit_and_the_removal_leaves_nothing_for_good(folder: Path) -> None:
    disk, stream = Stuck(), Draft(b"a", 1)
    storage = HeldStorage(folder / "s", disk, FILE_DURABLE, checkpoint_bytes=1, chunk_bytes=100, segment_bytes=500)
    write_segments(storage, stream)
    commit(storage, (stream.cut(stream.boundaries[-3]),))
    storage.discard(1)
    commit(storage, (Draft(b"b", 2).write(),))
    copy = killed(storage, folder / "copy")
    storage.close()
    again, before = small(copy), len(segments(folder / "s"))
    assert len(segments(copy)) < before
    assert_whole_from(again, stream, stream.boundaries[-3], random.Random(1))
    again.close()
