"""A torn end is cut back to the last whole record, wherever it was torn."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from everbrook.protocol import Producer
from everbrook.storage import Record
from tests.storage.drafts import Draft
from tests.storage.files.opening import abandon, commit, contents, open_files, segments


def test_a_record_torn_at_any_byte_is_as_if_it_had_never_been(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    stream = Draft(b"a", 1)
    commit(storage, (stream.write(b"one", producer=(b"p", Producer(0, 0, 1))),))
    before = contents(storage, [b"a"])
    [path] = segments(tmp_path)
    whole = path.stat().st_size
    commit(storage, (stream.write(b"two", producer=(b"p", Producer(0, 1, 2))),))
    abandon(storage)
    log = path.read_bytes()
    for size in range(whole, len(log)):
        path.write_bytes(log[:size])
        storage = open_files(tmp_path)
        assert contents(storage, [b"a"]) == before
        storage.close()


@pytest.mark.parametrize("garbage", [b"\0" * 500, b"EBR1" * 20, b"\xff" * 33], ids=["zeros", "magic", "ones"])
def test_writing_goes_on_where_the_last_whole_record_ends(tmp_path: Path, garbage: bytes) -> None:
    storage = open_files(tmp_path)
    stream = Draft(b"a", 1)
    commit(storage, (stream.write(b"one"),))
    abandon(storage)
    [path] = segments(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole + garbage)
    storage = open_files(tmp_path)
    commit(storage, (stream.write(b"two"),))
    assert storage.read(1, 0, 6) == b"onetwo"
    storage.close()
    assert path.read_bytes().startswith(whole + b"EBR1")
    assert open_files(tmp_path).load(b"a") == Record(stream.head, {})


def test_a_segment_torn_at_any_byte_is_begun_again(tmp_path: Path) -> None:
    storage = open_files(tmp_path, segment_bytes=1)
    stream = Draft(b"a", 1)
    commit(storage, (stream.write(b"x" * 500, producer=(b"p", Producer(0, 0, 1))),))
    before = contents(storage, [b"a"])
    later = stream.write(b"two")
    commit(storage, (later,))
    abandon(storage)
    _, path = segments(tmp_path)
    log = path.read_bytes()
    for size in range(len(log)):
        path.write_bytes(log[:size])
        storage = open_files(tmp_path, segment_bytes=1)
        assert contents(storage, [b"a"]) == before
        commit(storage, (later,))
        assert storage.read(1, 0, 503) == b"x" * 500 + b"two"
        storage.close()


def test_the_first_record_of_a_torn_group_is_lost_with_those_behind_it(tmp_path: Path) -> None:
    """A group is one write: its blocks may reach the disk in any order, and nobody was told of it."""
    storage = open_files(tmp_path)
    stream = Draft(b"a", 1)
    commit(storage, (stream.write(b"one"),))
    before = contents(storage, [b"a"])
    [path] = segments(tmp_path)
    whole = path.stat().st_size
    storage.persist([(stream.write(b"two"),), (stream.write(b"three"),)])
    abandon(storage)
    log = bytearray(path.read_bytes())
    log[whole + 40] ^= 1
    path.write_bytes(log)
    storage = open_files(tmp_path)
    assert contents(storage, [b"a"]) == before
    assert storage.damages == []
    storage.close()


def test_a_catalogue_torn_at_any_byte_forgets_the_creation_and_its_file(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    commit(storage, (Draft(b"a", 1).write(b"one"),))
    before = contents(storage, [b"a", b"b"])
    [path] = tmp_path.glob("catalogue-*.log")
    whole = path.stat().st_size
    commit(storage, (Draft(b"b", 2).write(b"two"),))
    abandon(storage)
    log = path.read_bytes()
    [created] = [segment for segment in segments(tmp_path) if segment.name.startswith("0000000000000002")]
    kept = created.read_bytes()
    for size in range(whole, len(log)):
        for newer in tmp_path.glob("catalogue-*.log"):
            newer.unlink()
        path.write_bytes(log[:size])
        created.write_bytes(kept)
        storage = open_files(tmp_path)
        assert contents(storage, [b"a", b"b"]) == before
        assert not created.exists()
        abandon(storage)


def test_segments_behind_one_that_was_lost_are_not_met_again(tmp_path: Path) -> None:
    """Without syncs a machine may keep a later file and lose the one before it."""
    storage = open_files(tmp_path, durable=False, segment_bytes=1)
    stream = Draft(b"a", 1)
    commit(storage, (stream.write(b"one"),))
    kept = replace(stream.head)
    for data in (b"two", b"three", b"four"):
        commit(storage, (stream.write(data),))
    abandon(storage)
    for path in segments(tmp_path)[1:3]:
        path.unlink()
    storage = open_files(tmp_path, durable=False, segment_bytes=1)
    assert storage.load(b"a") == Record(kept, {})
    stream.head, stream.data = kept, b"one"
    for data in (b"2", b"3", b"4"):
        commit(storage, (stream.write(data),))
        assert storage.read(1, 0, stream.head.tail) == stream.data
    storage.close()
    storage = open_files(tmp_path, durable=False)
    assert storage.load(b"a") == Record(stream.head, {})
    storage.close()
