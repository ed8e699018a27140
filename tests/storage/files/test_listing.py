"""Listing: heads are read once, follow what is written, and take a bounded room."""

from pathlib import Path

from everbrook.storage.files.heads import Heads
from tests.storage.drafts import Draft
from tests.storage.files.opening import commit, open_files, segments
from tests.storage.files.test_bounds import ReadCounter


def streams_of(folder: Path, count: int) -> list[Draft]:
    """Make a store of streams, some of them cut, and close it."""
    storage = open_files(folder, durable=False)
    streams = [Draft(b"/%04d" % number, number) for number in range(1, count + 1)]
    commit(storage, *((stream.write(b"x" * 100),) for stream in streams))
    commit(storage, *((stream.cut(100),) for stream in streams[::3]))
    commit(storage, *((stream.write(b"y"),) for stream in streams))
    storage.close()
    return streams


def test_a_page_of_a_thousand_streams_is_read_once(tmp_path: Path) -> None:
    streams = streams_of(tmp_path, 1000)
    disk = ReadCounter()
    storage = open_files(tmp_path, disk, durable=False)
    expected = [(stream.name, stream.head) for stream in streams]
    assert storage.scan(b"/", b"", 1000) == expected
    disk.read_bytes = 0
    assert storage.scan(b"/", b"", 1000) == expected
    assert disk.read_bytes == 0
    assert storage.count(b"/") == 1000
    assert storage.last_incarnation == 1000
    storage.close()


def test_listing_puts_nothing_out_of_memory_that_is_being_read(tmp_path: Path) -> None:
    streams_of(tmp_path, 100)
    storage = open_files(tmp_path, durable=False)
    storage.load(b"/0007")
    storage.scan(b"/", b"", 1000)
    assert storage.inspect().hot_logs == 1
    storage.close()


def test_heads_that_were_listed_follow_what_is_written(tmp_path: Path) -> None:
    streams = streams_of(tmp_path, 3)
    storage = open_files(tmp_path, durable=False)
    storage.scan(b"/", b"", 2)
    one, two, three = streams
    new = Draft(b"/9", 9)
    commit(storage, (one.write(b"more"),), (two.cut(101),), (three.drop(),), (new.write(b"new"),))
    assert storage.scan(b"/", b"", 10) == [(each.name, each.head) for each in (one, two, new)]
    storage.close()


def test_what_is_not_applied_is_not_listed(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    stream = Draft(b"/a", 1)
    commit(storage, (stream.write(b"one"),))
    visible = stream.head
    storage.close()
    storage = open_files(tmp_path)
    storage.persist([(stream.write(b"two"),), (Draft(b"/b", 2).write(),)])
    assert storage.scan(b"/", b"", 10) == [(b"/a", visible)]
    storage.close()


def test_a_damaged_stream_has_no_head(tmp_path: Path) -> None:
    streams = streams_of(tmp_path, 3)
    segments_of_second = [path for path in segments(tmp_path) if path.name.startswith("0000000000000002")]
    segments_of_second[0].write_bytes(b"not a log")
    storage = open_files(tmp_path, durable=False)
    assert [head for _, head in storage.scan(b"/", b"", 10)] == [streams[0].head, None, streams[2].head]
    assert len(storage.damages) == 1
    storage.close()


def test_only_so_many_heads_are_remembered_as_there_is_room_for() -> None:
    heads = Heads(bound=3)
    streams = [Draft(b"%d" % number, number) for number in range(5)]
    for stream in streams[:3]:
        heads.apply(stream.write())
    assert heads.get(0) == streams[0].head
    for stream in streams[3:]:
        heads.apply(stream.write())
    assert len(heads) == 3
    assert [heads.get(number) is None for number in range(5)] == [False, True, True, False, False]
    assert heads.get(0) == streams[0].head
