"""What is retained: for a stream, for the forks of it, and for those that can't say what they need."""

from pathlib import Path

from tests.storage.drafts import Draft
from tests.storage.files.cutting import cut, fill, open_small, verify
from tests.storage.files.opening import commit, finish_removals, numbers, open_files, segments


def test_a_fork_of_a_cut_stream_keeps_what_it_began_with(tmp_path: Path) -> None:
    storage = open_small(tmp_path)
    source = Draft(b"s", 1, json=True)
    fill(storage, source)
    early, late = source.boundaries[30], source.boundaries[80]
    cut(storage, source, early)
    fork = Draft(b"f", 2, json=True, source=source, offset=source.boundaries[90])
    commit(storage, (fork.write(b"own,"),))
    left = numbers(tmp_path, 1)
    cut(storage, source, late)
    assert numbers(tmp_path, 1) == left
    assert storage.read(1, early, late) == source.data[early:late]
    storage.close()
    storage = open_small(tmp_path)
    storage.discard(1)
    storage.discard(2)
    verify(storage, source, early)
    commit(storage, (fork.drop(),))
    storage.discard(1)
    finish_removals(storage)
    assert numbers(tmp_path, 1)[0] > left[0]
    verify(storage, source, late)
    storage.close()


def test_what_a_damaged_fork_may_need_stays(tmp_path: Path) -> None:
    storage = open_small(tmp_path)
    source = Draft(b"s", 1, json=True)
    fill(storage, source)
    commit(storage, (Draft(b"f", 2, json=True, source=source, offset=9).write(b"own,"),))
    storage.close()
    [log] = [path for path in segments(tmp_path) if path.name.startswith("0000000000000002")]
    log.write_bytes(b"")
    storage = open_small(tmp_path)
    cut(storage, source, source.boundaries[70])
    assert numbers(tmp_path, 1)[0] == 0
    assert storage.keeps(1, 77)
    storage.close()


def test_a_damaged_stream_is_left_as_it_is(tmp_path: Path) -> None:
    storage = open_small(tmp_path)
    stream = Draft(b"a", 1, json=True)
    fill(storage, stream)
    commit(storage, (stream.cut(stream.boundaries[70]),))
    storage.close()
    for path in segments(tmp_path):
        path.write_bytes(path.read_bytes()[:30])
    left = segments(tmp_path)
    storage = open_small(tmp_path)
    storage.discard(1)
    finish_removals(storage)
    assert segments(tmp_path) == left
    assert storage.keeps(1, 77)
    storage.close()


def test_blobs_are_kept_for_their_streams_and_forks(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    source = Draft(b"s", 1)
    commit(storage, (source.write(b"one"),), (source.cut(3, blob=10, content=b"x"),))
    fork = Draft(b"f", 20, source=source, offset=3)
    commit(storage, (fork.write(b"two"),), (source.cut(3, blob=30, content=b"y"),))
    assert [storage.keeps(1, blob) for blob in (10, 30, 31)] == [True, True, False]
    commit(storage, (fork.drop(),))
    assert [storage.keeps(1, blob) for blob in (10, 30, 31)] == [False, True, False]
    commit(storage, (source.drop(),))
    assert not storage.keeps(1, 30)
    assert storage.damages == []
    storage.close()


def test_of_too_many_forks_nobody_is_asked(tmp_path: Path) -> None:
    storage = open_files(tmp_path, durable=False)
    source = Draft(b"s", 1)
    commit(storage, (source.write(b"one"),))
    forks = (Draft(b"%d" % number, number, source=source, offset=3) for number in range(100, 1101))
    commit(storage, *((fork.write(),) for fork in forks))
    assert storage.keeps(1, 99)
    assert not storage.keeps(1, 100)
    storage.close()
