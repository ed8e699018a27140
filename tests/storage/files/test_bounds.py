"""Descriptors and memory are bounded, however many streams there are; start-up does not read them all."""

from pathlib import Path
from random import Random

from everbrook.storage import OsDisk, Record
from everbrook.storage.files.tuning import DEFAULT_TUNING
from tests.storage.drafts import Draft
from tests.storage.files.disks import WatchedDisk
from tests.storage.files.opening import commit, open_files


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_descriptors_do_not_grow_with_streams(tmp_path: Path) -> None:
    before = descriptors()
    storage = open_files(tmp_path, WatchedDisk())
    streams = [Draft(b"%d" % number, number) for number in range(1, 501)]
    commit(storage, *((stream.write(b"x"),) for stream in streams))
    commit(storage, *((stream.write(b"y"),) for stream in streams))
    for stream in streams:
        commit(storage, (stream.write(b"z"),))
        assert storage.read(stream.incarnation, 0, 3) == b"xyz"
    assert descriptors() - before <= DEFAULT_TUNING.open_files + 10
    storage.close()
    assert descriptors() <= before  # what others left behind may have gone meanwhile


def test_files_are_not_closed_before_they_are_synced(tmp_path: Path) -> None:
    disk = WatchedDisk()
    storage = open_files(tmp_path, disk)
    disk.steps.clear()
    storage.persist([(Draft(b"%d" % number, number).write(b"x"),) for number in range(1, 201)])
    written = {path for kind, path in disk.steps if kind == "write"}
    assert written == {path for kind, path in disk.steps if kind == "sync" and path.suffix}
    # One more for the catalogue.
    assert disk.most_open <= DEFAULT_TUNING.open_files + 2
    storage.close()


class ReadCounter(OsDisk):
    """The file system; it counts the bytes that are read."""

    def __init__(self) -> None:
        self.read_bytes = 0

    def read(self, path: Path, start: int = 0, size: int = -1) -> bytes:
        data = super().read(path, start, size)
        self.read_bytes += len(data)
        return data


def test_opening_reads_no_streams(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    streams = [Draft(b"%d" % number, number) for number in range(1, 101)]
    commit(storage, *((stream.write(b"x" * 10_000),) for stream in streams))
    storage.close()
    disk = ReadCounter()
    storage = open_files(tmp_path, disk)
    assert disk.read_bytes < 20_000
    assert storage.load(b"7") == Record(streams[6].head, {})
    storage.close()


def test_loading_a_long_stream_reads_its_last_segment_only(tmp_path: Path) -> None:
    storage = open_files(tmp_path, segment_bytes=10_000)
    stream = Draft(b"a", 1)
    for _ in range(30):
        commit(storage, (stream.write(b"x" * 5_000),))
    storage.close()
    disk = ReadCounter()
    storage = open_files(tmp_path, disk)
    disk.read_bytes = 0
    assert storage.load(b"a") == Record(stream.head, {})
    assert disk.read_bytes < 20_000
    storage.close()


def test_cold_streams_leave_memory_and_come_back(tmp_path: Path) -> None:
    storage = open_files(tmp_path, segment_bytes=300, hot_bytes=20_000, older_bytes=5_000, pens_bytes=20_000)
    streams = [Draft(b"%d" % number, number) for number in range(1, 101)]
    commit(storage, *((stream.write(b"first"),) for stream in streams))
    chance = Random(1)
    for _ in range(1000):
        stream = chance.choice(streams)
        commit(storage, (stream.write(chance.randbytes(chance.randint(1, 50))),))
        read = chance.choice(streams)
        assert storage.load(read.name) == Record(read.head, {})
        assert storage.read(read.incarnation, 0, read.head.tail) == read.data
        held = storage.inspect()
        assert held.hot_bytes <= 25_000
        assert held.older_bytes <= 6_000
        assert held.pens_bytes <= 21_000
    storage.close()


def test_dropped_streams_leave_nothing(tmp_path: Path) -> None:
    storage = open_files(tmp_path, segment_bytes=300)
    stream = Draft(b"a", 1)
    for _ in range(10):
        commit(storage, (stream.write(b"x" * 200),))
    assert len(list(tmp_path.glob("streams/*/*"))) > 3
    commit(storage, (stream.drop(),))
    assert list(tmp_path.glob("streams/*/*")) == []
    assert storage.inspect().open_files == 0
    storage.close()
